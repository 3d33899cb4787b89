package preflight

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestListener(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	if pid := Listener(socket); pid != 0 {
		t.Errorf("%d answers on no socket", pid)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if pid := Listener(socket); pid != os.Getpid() {
		t.Errorf("%d answers, want %d", pid, os.Getpid())
	}
}

// The command line of a process is what it was started with.
func TestArguments(t *testing.T) {
	// A shell that waits under a name and arguments of our choice.
	shell := filepath.Join(t.TempDir(), "podstead")
	if err := os.Symlink("/bin/sh", shell); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(shell, "-c", "echo; read line", "podstead", "run", "--root-dir", "/x y", "--max-pods=7")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Before its first line the kernel may still be filling in its arguments.
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if args := Arguments(cmd.Process.Pid); !slices.Equal(args, cmd.Args) {
		t.Errorf("%q, want %q", args, cmd.Args)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // read fails at the end of its input
	if args := Arguments(1 << 30); args != nil {
		t.Errorf("arguments %q of a process that is not there", args)
	}
}
