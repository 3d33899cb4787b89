package daemon

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/daemon/preflight"
)

func TestPrintFindings(t *testing.T) {
	list := []preflight.Finding{
		{Check: "runtime", Level: preflight.OK, Message: "it answers"},
		{Check: "dns", Level: preflight.Fail, Message: "no <server>", Fix: "echo a && b"},
		{Check: "swap", Level: preflight.Warn, Message: "on"},
	}
	var text, out bytes.Buffer
	if err := printFindings(&text, list, ""); err != nil {
		t.Fatal(err)
	}
	want := "ok    runtime  it answers\nfail  dns      no <server>\n               fix: echo a && b\nwarn  swap     on\n1 failed, 1 warnings, 1 ok\n"
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &text, want)
	}
	if err := printFindings(&out, list, "json"); err != nil {
		t.Fatal(err)
	}
	var report struct {
		Findings       []preflight.Finding
		Failed, Warned int
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.Failed != 1 || report.Warned != 1 || len(report.Findings) != 3 || report.Findings[1] != list[1] {
		t.Errorf("%v: %s", err, &out)
	}
	if !strings.Contains(out.String(), "a && b") {
		t.Errorf("a command cannot be copied out of %s", &out)
	}
}

// The flags of a running daemon are read off its command line; of another
// program nothing is taken.
func TestDaemonFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		root string
	}{
		"a daemon":     {[]string{"run", "--root-dir", "/x", "--max-pods=7"}, "/x"},
		"other flags":  {[]string{"run", "--no-such-flag"}, ""},
		"another word": {[]string{"walk", "--root-dir", "/x"}, ""},
	} {
		// A shell that waits under a name and arguments of our choice.
		shell := filepath.Join(t.TempDir(), "podstead")
		if err := os.Symlink("/bin/sh", shell); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(shell, append([]string{"-c", "echo; read line", "podstead"}, tc.args...)...)
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
		flags, o := daemonFlags(cmd.Process.Pid)
		switch {
		case tc.root == "" && flags != nil:
			t.Errorf("%s: flags %v", name, flags)
		case tc.root != "" && (flags == nil || o.Paths.Root != tc.root || o.Policy.MaxPods != 7 || !flags.Changed("max-pods")):
			t.Errorf("%s: %v %+v", name, flags, o)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // read fails at the end of its input
	}
	if flags, _ := daemonFlags(1 << 30); flags != nil {
		t.Error("flags of a process that is not there")
	}
}

func TestDaemonProcess(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	if pid := daemonProcess(socket); pid != 0 {
		t.Errorf("%d answers on no socket", pid)
	}
	at := time.Now()
	if built().After(at) {
		t.Error("built in the future")
	}
}

// systemd is the cgroup driver of a private containerd where it is the init process, and cgroup v2 is in
// use or the settings say systemd. Nothing lets it use the driver on a host without systemd.
func TestUsesSystemd(t *testing.T) {
	booted := t.TempDir()
	mountinfo := func(line string) string {
		file := filepath.Join(t.TempDir(), "mountinfo")
		if err := os.WriteFile(file, []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	v2 := mountinfo("30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate")
	v1 := mountinfo("31 24 0:27 / /sys/fs/cgroup/memory rw,nosuid shared:5 - cgroup cgroup rw,memory")
	for _, c := range []struct {
		cgroups           config.Cgroups
		booted, mountinfo string
		want              bool
	}{
		{config.Cgroups{}, booted, v2, true},
		{config.Cgroups{}, booted, v1, false},
		{config.Cgroups{}, filepath.Join(booted, "none"), v2, false},
		{config.Cgroups{Driver: "cgroupfs"}, booted, v2, false},
		{config.Cgroups{DriverHint: "cgroupfs"}, booted, v2, false},
		{config.Cgroups{DriverHint: "systemd"}, booted, v1, true},
		{config.Cgroups{Driver: "systemd", DriverHint: "cgroupfs"}, booted, v1, true},
		{config.Cgroups{DriverHint: "systemd"}, filepath.Join(booted, "none"), v2, false},
		{config.Cgroups{Driver: "systemd"}, filepath.Join(booted, "none"), v2, false},
	} {
		if got := usesSystemd(&c.cgroups, c.booted, c.mountinfo); got != c.want {
			t.Errorf("%+v, %s: %t", c, c.mountinfo, got)
		}
	}
}

// Pods of a private containerd use its cgroup driver, also if --cgroup-driver has been changed since
// its containers were created. For another runtime the flag applies.
func TestDriverOfThePrivateContainerd(t *testing.T) {
	f := critest.New(t)
	for _, used := range []string{"cgroupfs", "systemd"} {
		f.SetCgroupDriver(used)
		for _, flag := range []string{"", "cgroupfs", "systemd"} {
			c := config.Cgroups{Driver: flag, DriverHint: "cgroupfs"}
			got, err := cgroupDriver(t.Context(), &c, f.Client(t), true)
			if want := cmp.Or(flag, used); err != nil || string(got) != want {
				t.Errorf("--cgroup-driver=%s of a runtime that uses %s: %s (%v)", flag, used, got, err)
			}
			before := usesSystemd(&c, t.TempDir(), "/proc/self/mountinfo")
			followPrivate(&c)
			if got, err = cgroupDriver(t.Context(), &c, f.Client(t), true); err != nil || string(got) != used {
				t.Errorf("--cgroup-driver=%s of a private containerd that uses %s: %s (%v)", flag, used, got, err)
			}
			if usesSystemd(&c, t.TempDir(), "/proc/self/mountinfo") != before {
				t.Errorf("--cgroup-driver=%s: the driver of the next boot is another one", flag)
			}
		}
	}
}
