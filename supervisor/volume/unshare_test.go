package volume

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/mounts"
)

// On a host with private mounts, the directories that were mounted on themselves can be removed after the end of the
// daemon, unless a pod is left, or something else needs the mounts.
func TestUnshareRoots(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting requires root")
	}
	runtime.LockOSThread() // it is not unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		t.Skip("no mount namespace:", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	pods, plugins := filepath.Join(root, "pods"), filepath.Join(root, "plugins")
	read := func() ([]*mountinfo.Info, error) {
		f, err := os.Open("/proc/thread-self/mountinfo")
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return mounts.Read(f, nil)
	}
	v, other := &Volumes{Root: pods}, &Volumes{Root: plugins}
	v.mounts, other.mounts = read, read
	mounted := func() (list []string) {
		t.Helper()
		points, err := read()
		if err != nil {
			t.Fatal(err)
		}
		return mountsBelow(points, root)
	}
	// expect shares the directories, ends the daemon, and returns how many are still mounted.
	expect := func(when string, want int) {
		t.Helper()
		for _, s := range []*Volumes{v, other} {
			if err := s.ShareRoot(); err != nil {
				t.Fatal(err)
			}
		}
		if err := v.UnshareRoots(plugins, filepath.Join(root, "none")); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if got := mounted(); len(got) != want {
			t.Errorf("%s: %d are mounted, want %d: %v", when, len(got), want, got)
		}
	}
	expect("no pod is left", 0)
	expect("no pod is left after another start", 0)

	dir := filepath.Join(pods, "uid")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	expect("a pod is left", 2)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}

	volume := filepath.Join(plugins, "volume")
	if err := os.Mkdir(volume, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", volume, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	expect("a driver has mounted a volume", 2) // the volume and what it is in
	if err := unix.Unmount(volume, 0); err != nil {
		t.Fatal(err)
	}

	if err := other.ShareRoot(); err != nil {
		t.Fatal(err)
	}
	driver := exec.Command("sleep", "60")
	driver.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	if err := driver.Start(); err != nil {
		t.Fatal(err)
	}
	expect("a driver sees the directories in its container", 1) // not that of pods, shared after its start
	_ = driver.Process.Kill()
	_ = driver.Wait()

	file, err := os.Open(plugins)
	if err != nil {
		t.Fatal(err)
	}
	expect("a directory is open", 1)
	_ = file.Close()

	if err := unix.Mount("none", pods, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", pods, "", unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	expect("the administrator has mounted a disk", 1)
	if err := unix.Unmount(pods, 0); err != nil {
		t.Fatal(err)
	}
	expect("all is gone", 0)
}
