package preflight

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func daemon(_ *Host, s *Settings) []Finding {
	if s.Running == 0 {
		return ok("daemon", "podstead is not running on socket %s and can be started", s.Socket)
	}
	return ok("daemon", "podstead is running (pid %d) and serves %s", s.Running, s.Socket)
}

// RequireRoot returns an error for an ordinary user, who would otherwise get the first of many errors about
// files and directories.
func RequireRoot(uid int) error {
	if uid == 0 {
		return nil
	}
	return fmt.Errorf("podstead run must run as root, not as user %d: use sudo podstead run, or systemctl start podstead",
		uid)
}

func user(h *Host, _ *Settings) []Finding {
	if h.UID != 0 {
		return fail("user", "sudo podstead check", "user %d cannot run pods or check all parts of the host: run as root",
			h.UID)
	}
	return nil
}

// kubelets checks that no kubelet uses the same runtime: it would kill every pod that it does
// not know.
func kubelets(h *Host, s *Settings) []Finding {
	if err := CheckKubelet(h.path("proc"), s.Runtime.Endpoint); err != nil && s.Runtime.Endpoint != "" {
		return fail("kubelet", "systemctl disable --now kubelet", "%v", err)
	}
	return ok("kubelet", "no kubelet uses this runtime")
}

func machineID(h *Host, _ *Settings) []Finding {
	for _, p := range []string{"etc/machine-id", "var/lib/dbus/machine-id"} {
		if id := h.text(p); id != "" && id != "uninitialized" {
			return ok("machine-id", "the host has a machine ID")
		}
	}
	return repaired(warn("machine-id", "systemd-machine-id-setup", "the host has no machine ID: after a change of the "+
		"hostname podstead would treat its pods as those of another node"))
}

// earliestBuild is a time before any build of this program.
var earliestBuild = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func clock(h *Host, s *Settings) []Finding {
	now, built := h.Now(), s.Built
	if built.Before(earliestBuild) {
		built = earliestBuild
	}
	// A day of tolerance covers build times in a wrong time zone.
	if now.Before(built.Add(-24 * time.Hour)) {
		return fail("clock", "timedatectl set-ntp true", "the clock shows %s, before the build date of this program (%s): "+
			"certificates are not yet valid and file times are in the future",
			now.UTC().Format(time.DateOnly), built.UTC().Format(time.DateOnly))
	}
	synchronized, err := h.Synchronized()
	fix := "apt-get install chrony  (or start another NTP client)"
	if h.exists("run/systemd/system") && h.command("timedatectl") != "" {
		fix = "timedatectl set-ntp true  (or: apt-get install chrony)"
	}
	switch {
	case err != nil:
		return warn("clock", "", "failed to read the clock status from the kernel: %v", err)
	case !synchronized:
		return warn("clock", fix,
			"the clock is not synchronized: certificates and log timestamps depend on it")
	}
	return ok("clock", "the clock is synchronized")
}

// warnMargin is the margin above a threshold of eviction that is a warning, in percent.
const warnMargin = 5

// minFree returns the threshold of a signal in percent of a capacity, 0 without one.
func (s *Settings) minFree(signal string, capacity uint64) float64 {
	if capacity == 0 {
		return 0
	}
	return 100 * float64(s.MinFree(signal, int64(capacity))) / float64(capacity)
}

func disks(h *Host, s *Settings) (list []Finding) {
	seen := map[any]bool{}
	for _, d := range []struct {
		name, path, disk string
	}{{"images", s.Runtime.Images.Dir, "imagefs"}, {"root directory", s.Root, "nodefs"},
		{"pod logs", s.PodLogs, "nodefs"}} {
		if d.path == "" {
			continue
		}
		at := h.nearestExisting(d.path)
		space, err := h.Space(h.path(at))
		if err != nil {
			list = append(list, fail("disk", "", "failed to read the file system of %s: %v", at, err)...)
			continue
		}
		disk := any(space)
		if space.ID != 0 {
			disk = space.ID // what is free can change between two paths of a disk
		}
		if space.Bytes == 0 || seen[disk] {
			continue
		}
		seen[disk] = true
		free := 100 * float64(space.BytesFree) / float64(space.Bytes)
		// Images have their own thresholds, which apply to everything on their disk.
		minFree, minInodes := s.minFree(d.disk+".available", space.Bytes), s.minFree(d.disk+".inodesFree", space.Inodes)
		const remedy = "podstead images prune; journalctl --vacuum-size=100M; du -xhd2 / | sort -h | tail"
		switch {
		case free < minFree:
			list = append(list, fail("disk", remedy,
				"only %.1f%% of the disk of the %s (%s) is free: pods are evicted below %.3g%%", free, d.name, at, minFree)...)
		case space.Inodes > 0 && 100*float64(space.InodesFree)/float64(space.Inodes) < minInodes:
			list = append(list, fail("disk", "find "+at+" -xdev -printf '%h\\n' | sort | uniq -c | sort -n | tail",
				"only %d%% of the inodes of the disk of the %s (%s) are free: pods are evicted below %.3g%%",
				100*space.InodesFree/space.Inodes, d.name, at, minInodes)...)
		case minFree > 0 && free < minFree+warnMargin:
			list = append(list, warn("disk", remedy,
				"only %.1f%% of the disk of the %s (%s) is free: pods are evicted below %.3g%%", free, d.name, at, minFree)...)
		default:
			list = append(list, ok("disk", "%.0f%% of the disk of the %s is free", free, d.name)...)
		}
	}
	return list
}

func directories(h *Host, s *Settings) (list []Finding) {
	for _, f := range []struct{ name, path string }{
		{"root directory", s.Root}, {"pod log directory", s.PodLogs}, {"socket directory", filepath.Dir(s.Socket)},
	} {
		list = append(list, h.directory(f.name, f.path)...)
	}
	list = append(list, h.manifests(s.Manifests)...)
	if at := h.nearestExisting(s.Root); at != "" {
		space, err := h.Space(h.path(at))
		switch {
		case err != nil:
		case space.NoExec:
			list = append(list, warn("directories", "mount -o remount,exec "+at,
				"%s is on a file system mounted noexec: programs in pod volumes cannot be executed", s.Root)...)
		case space.InMemory:
			list = append(list, warn("directories", "podstead run --root-dir DIRECTORY-ON-DISK",
				"%s is on a memory file system: volumes and the state of pods are lost on reboot", s.Root)...)
		}
	}
	if list == nil {
		return ok("directories", "all exist or can be created, with safe permissions")
	}
	return list
}

// directory checks a directory that podstead writes to.
func (h *Host) directory(name, path string) []Finding {
	at := h.nearestExisting(path)
	fi, err := os.Stat(h.path(at))
	switch {
	case err != nil:
		return fail("directories", "ls -ld "+at, "failed to access the %s: %v", name, err)
	case !fi.IsDir():
		return fail("directories", fmt.Sprintf("mv %[1]s %[1]s.old", at), "cannot create the %s %s: %s is not a directory",
			name, path, at)
	}
	if space, err := h.Space(h.path(at)); err == nil && space.ReadOnly {
		return fail("directories", "mount -o remount,rw "+at, "the %s %s is on a read-only file system", name, path)
	}
	if at == path && fi.Mode().Perm()&0o002 != 0 && fi.Mode()&os.ModeSticky == 0 {
		return repaired(fail("directories", "chmod o-w "+path,
			"the %s %s is world-writable: every user could get root privileges", name, path))
	}
	return nil
}

// manifests checks the permissions of the manifests: write access to them is root access.
func (h *Host) manifests(path string) []Finding {
	if path == "" {
		return nil
	}
	fi, err := os.Stat(h.path(path))
	switch {
	case os.IsNotExist(err):
		return repaired(warn("manifests", "mkdir -p "+path,
			"%s does not exist, so there are no pods to run; podstead reads it once it is created", path))
	case err != nil:
		return fail("manifests", "ls -ld "+path, "failed to read %s: %v", path, err)
	case fi.Mode().Perm()&0o002 != 0:
		return repaired(fail("manifests", "chmod o-w "+path, "%s is world-writable: every user could run anything as root",
			path))
	}
	return ok("manifests", "%s exists and is not world-writable", path)
}
