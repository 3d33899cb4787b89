package preflight

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Podstead that is called kubelet is no kubelet: neither this process nor another version.
func TestPodsteadCalledKubelet(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	self := write("program")
	for name, c := range map[string]struct {
		exe      string
		conflict bool
	}{
		"this program under any name": {self, false},
		"another podstead":            {write("podstead"), false},
		"a replaced podstead":         {dir + "/old/podstead (deleted)", false},
		"a kubelet":                   {write("kubelet"), true},
		"a replaced kubelet":          {dir + "/old/kubelet (deleted)", true},
	} {
		t.Run(name, func(t *testing.T) {
			proc := fakeProc{t, t.TempDir()}
			proc.add("self", "/usr/local/bin/kubelet")
			proc.link("self/exe", self)
			proc.add("42", "/usr/local/bin/kubelet")
			proc.link("42/exe", c.exe)
			var conflict *KubeletError
			if err := CheckKubelet(proc.dir, "unix:///run/containerd/containerd.sock"); errors.As(err, &conflict) != c.conflict {
				t.Errorf("CheckKubelet = %v, want a conflict: %v", err, c.conflict)
			}
		})
	}
}

func TestCheckKubelet(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "run"), filepath.Join(dir, "varrun")); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "kubelet.yaml")
	if err := os.WriteFile(config, []byte("containerRuntimeEndpoint: unix:///run/crio/crio.sock\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cmdline  []string
		endpoint string
		conflict bool
	}{
		"default":         {[]string{"/usr/bin/kubelet", "--v=2"}, "unix:///run/containerd/containerd.sock", true},
		"another runtime": {[]string{"/usr/bin/kubelet"}, "unix:///run/podstead/containerd/containerd.sock", false},
		"flag with =": {[]string{"kubelet", "--container-runtime-endpoint=unix:///run/crio/crio.sock"},
			"unix:///run/crio/crio.sock", true},
		"flag with separate value": {[]string{"kubelet", "--container-runtime-endpoint", "/run/crio/crio.sock"},
			"unix:///run/crio/crio.sock", true},
		"flag beats config": {[]string{"kubelet", "--config", config, "--container-runtime-endpoint", "/x"},
			"unix:///run/crio/crio.sock", false},
		"config": {[]string{"kubelet", "--config=" + config}, "unix:///run/crio/crio.sock", true},
		"through a symlink": {[]string{"kubelet", "--container-runtime-endpoint=unix://" + dir + "/varrun/c.sock"},
			"unix://" + dir + "/run/c.sock", true},
		"not a kubelet": {[]string{"/usr/bin/vi", "kubelet"}, "unix:///run/containerd/containerd.sock", false},
		"a value, not a flag": {[]string{"kubelet", "container-runtime-endpoint", "/y"},
			"unix:///run/containerd/containerd.sock", true},
	} {
		t.Run(name, func(t *testing.T) {
			proc := fakeProc{t, t.TempDir()}
			proc.add("self", "podstead")
			proc.add("1", "init")
			proc.add("42", c.cmdline...)
			err := CheckKubelet(proc.dir, c.endpoint)
			var conflict *KubeletError
			if got := errors.As(err, &conflict); got != c.conflict {
				t.Fatalf("CheckKubelet = %v, want a conflict: %v", err, c.conflict)
			}
			if c.conflict && (conflict.PID != 42 || !strings.Contains(err.Error(), c.endpoint)) {
				t.Errorf("the error does not name process and runtime: %v", err)
			}
		})
	}
}

// fakeProc is a process table.
type fakeProc struct {
	t   *testing.T
	dir string
}

// add adds a process of root in the namespaces of the host.
func (p fakeProc) add(pid string, cmdline ...string) {
	p.t.Helper()
	dir := filepath.Join(p.dir, pid)
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "ns"), 0o755),
		os.Symlink("pid:[1]", filepath.Join(dir, "ns/pid")), os.Symlink("mnt:[2]", filepath.Join(dir, "ns/mnt")),
		os.WriteFile(filepath.Join(dir, "status"), []byte("Name:\tx\nUid:\t0\t0\t0\t0\n"), 0o444),
		os.WriteFile(filepath.Join(dir, "cmdline"), []byte(strings.Join(cmdline, "\x00")+"\x00"), 0o444))
	if err != nil {
		p.t.Fatal(err)
	}
}

// write replaces a file of a process.
func (p fakeProc) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte(text), 0o444)); err != nil {
		p.t.Fatal(err)
	}
}

// link replaces a file of a process by a symbolic link.
func (p fakeProc) link(name, target string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := errors.Join(os.RemoveAll(path), os.Symlink(target, path)); err != nil {
		p.t.Fatal(err)
	}
}

// A process in a container can call itself kubelet and name any file as its config. It must
// neither stop podstead's start, nor hang it, nor make it read without bound.
func TestProcessesOfContainersAreNotKubelets(t *testing.T) {
	const endpoint = "unix:///run/containerd/containerd.sock"
	for name, disguise := range map[string]func(p fakeProc){
		"another user":            func(p fakeProc) { p.write("42/status", "Uid:\t65534\t65534\t65534\t65534\n") },
		"a setuid program":        func(p fakeProc) { p.write("42/status", "Uid:\t1000\t0\t0\t0\n") },
		"no status":               func(p fakeProc) { p.write("42/status", "") },
		"another mount namespace": func(p fakeProc) { p.link("42/ns/mnt", "mnt:[3]") },
		"another PID namespace":   func(p fakeProc) { p.link("42/ns/pid", "pid:[3]") },
		"an empty command line":   func(p fakeProc) { p.write("42/cmdline", "") },
	} {
		t.Run(name, func(t *testing.T) {
			proc := fakeProc{t, t.TempDir()}
			proc.add("self", "podstead")
			proc.add("42", "kubelet")
			if err := CheckKubelet(proc.dir, endpoint); err == nil {
				t.Fatal("the kubelet of the host is not found")
			}
			disguise(proc)
			if err := CheckKubelet(proc.dir, endpoint); err != nil {
				t.Errorf("CheckKubelet = %v, want nil", err)
			}
		})
	}
}

// A kubelet's config file that cannot be read as a file of a sensible size counts as absent.
func TestKubeletConfigIsRead(t *testing.T) {
	dir := t.TempDir()
	fifo, large := filepath.Join(dir, "fifo"), filepath.Join(dir, "large")
	text := "containerRuntimeEndpoint: unix:///run/crio/crio.sock\n"
	err := errors.Join(unix.Mkfifo(fifo, 0o600), os.WriteFile(large, []byte(text), 0o600), os.Truncate(large, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{fifo, large, "/dev/zero", dir} {
		proc := fakeProc{t, t.TempDir()}
		proc.add("self", "podstead")
		proc.add("42", "kubelet", "--config="+file)
		if err := CheckKubelet(proc.dir, "unix:///run/crio/crio.sock"); err != nil {
			t.Errorf("--config=%s: %v, want the file ignored", file, err)
		}
		if err := CheckKubelet(proc.dir, "unix:///run/containerd/containerd.sock"); err == nil {
			t.Errorf("--config=%s: the kubelet's default endpoint is not assumed", file)
		}
	}
}
