package preflight

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func daemon(_ *Host, s *Settings) []Finding {
	if s.Running == 0 {
		return ok("daemon", "no podstead runs with the socket %s; it would start", s.Socket)
	}
	return ok("daemon", "podstead runs (pid %d) and answers on %s", s.Running, s.Socket)
}

func user(h *Host, _ *Settings) []Finding {
	if h.UID != 0 {
		return fail("user", "sudo podstead check", "user %d may neither run pods nor look at all parts of the host; be root", h.UID)
	}
	return nil
}

// Capabilities by their bits, as in capability.h.
var needed = []struct {
	bit  uint
	name string
	// without is what does not work then, fix what can be done; required: no pod
	// runs then.
	without, fix string
	required     bool
}{
	{12, "CAP_NET_ADMIN", "no pod network can be made", "", true},
	{21, "CAP_SYS_ADMIN", "nothing can be mounted for pods", "", true},
	{24, "CAP_SYS_RESOURCE", "the runtime cannot protect sandboxes from being killed for want of memory, and may fail to start any",
		"restrict_oom_score_adj = true in the CRI section of /etc/containerd/config.toml", false},
	{34, "CAP_SYSLOG", "no event tells that the kernel killed for want of memory", "", false},
}

func capabilities(h *Host, _ *Settings) (list []Finding) {
	for _, l := range strings.Split(h.line("proc/self/status"), "\n") {
		text, found := strings.CutPrefix(l, "CapEff:")
		has, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
		if !found || err != nil || h.UID != 0 {
			continue
		}
		for _, c := range needed {
			switch {
			case has&(1<<c.bit) != 0:
			case c.required:
				list = append(list, fail("capabilities", c.fix, "root lacks %s here: %s; run podstead where it has all capabilities", c.name, c.without)...)
			default:
				list = append(list, warn("capabilities", c.fix, "root lacks %s here: %s", c.name, c.without)...)
			}
		}
		if list == nil {
			return ok("capabilities", "root has what it needs")
		}
	}
	return list
}

// kubelets: one on the same runtime ends every pod that it does not know.
func kubelets(h *Host, s *Settings) []Finding {
	if err := CheckKubelet(h.path("proc"), s.Runtime.Endpoint); err != nil && s.Runtime.Endpoint != "" {
		return fail("kubelet", "systemctl disable --now kubelet", "%v", err)
	}
	return ok("kubelet", "no kubelet uses this runtime")
}

func machineID(h *Host, _ *Settings) []Finding {
	for _, p := range []string{"etc/machine-id", "var/lib/dbus/machine-id"} {
		if id := h.line(p); id != "" && id != "uninitialized" {
			return ok("machine-id", "this machine has an id")
		}
	}
	return warn("machine-id", "systemd-machine-id-setup", "this machine has no id; a change of its name would make podstead take its pods for another's")
}

// earliest is a time before which no build of this program was made.
var earliest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func clock(h *Host, s *Settings) []Finding {
	now, built := h.Now(), s.Built
	if built.Before(earliest) {
		built = earliest
	}
	// A day is for time zones that a build got wrong.
	if now.Before(built.Add(-24 * time.Hour)) {
		return fail("clock", "timedatectl set-ntp true", "it is %s here, before this program was made (%s): certificates are not valid, and files look as if from the future",
			now.UTC().Format(time.DateOnly), built.UTC().Format(time.DateOnly))
	}
	synchronized, err := h.Synchronized()
	switch {
	case err != nil:
		return warn("clock", "", "the kernel does not say whether the clock is right: %v", err)
	case !synchronized:
		return warn("clock", "timedatectl set-ntp true  (or: apt-get install chrony)", "nothing keeps the clock right; certificates and the order of logs depend on it")
	}
	return ok("clock", "it is kept right")
}

// Available space and inodes, in percent, below which the node counts as full
// and pods are ended, as the kubelet's defaults. Images have a threshold of
// their own, which counts for all that shares their disk.
const (
	fullSpace, fullImages, fullInodes = 10, 15, 5
	// tightSpace more than that is a warning.
	tightSpace = 5
)

func disks(h *Host, s *Settings) (list []Finding) {
	seen := map[Space]bool{}
	for _, d := range []struct {
		what, path string
		full       float64
	}{{"images", s.Runtime.Images, fullImages}, {"root folder", s.Root, fullSpace}, {"logs of pods", s.PodLogs, fullSpace}} {
		if d.path == "" {
			continue
		}
		at := h.nearest(d.path)
		space, err := h.Space(h.path(at))
		if err != nil {
			list = append(list, fail("disk", "", "cannot look at the disk of %s: %v", at, err)...)
			continue
		}
		if space.Bytes == 0 || seen[space] {
			continue
		}
		seen[space] = true
		free := 100 * float64(space.BytesFree) / float64(space.Bytes)
		const remedy = "podstead images prune; journalctl --vacuum-size=100M; du -xhd2 / | sort -h | tail"
		switch {
		case free < d.full:
			list = append(list, fail("disk", remedy, "%.1f%% of the disk of the %s (%s) is free: below %.0f%% pods are ended to make room", free, d.what, at, d.full)...)
		case space.Inodes > 0 && 100*space.InodesFree/space.Inodes < fullInodes:
			list = append(list, fail("disk", "find "+at+" -xdev -printf '%h\\n' | sort | uniq -c | sort -n | tail",
				"%d%% of the inodes of the disk of the %s (%s) are free: below %d%% pods are ended to make room", 100*space.InodesFree/space.Inodes, d.what, at, fullInodes)...)
		case free < d.full+tightSpace:
			list = append(list, warn("disk", remedy, "%.1f%% of the disk of the %s (%s) is free; below %.0f%% pods are ended to make room", free, d.what, at, d.full)...)
		default:
			list = append(list, ok("disk", "%.0f%% of the disk of the %s is free", free, d.what)...)
		}
	}
	return list
}

func folders(h *Host, s *Settings) (list []Finding) {
	for _, f := range []struct{ what, path string }{
		{"root folder", s.Root}, {"folder of logs", s.PodLogs}, {"folder of the socket", filepath.Dir(s.Socket)},
	} {
		list = append(list, h.folder(f.what, f.path)...)
	}
	list = append(list, h.manifests(s.Manifests)...)
	if at := h.nearest(s.Root); at != "" {
		space, err := h.Space(h.path(at))
		switch {
		case err != nil:
		case space.NoExec:
			list = append(list, warn("folders", "mount -o remount,exec "+at, "%s is on a file system mounted noexec: programs in volumes of pods do not run", s.Root)...)
		case space.InMemory:
			list = append(list, warn("folders", "podstead run --root-dir FOLDER-ON-A-DISK", "%s is in memory: volumes, and what is known of pods, are gone after a boot", s.Root)...)
		}
	}
	if list == nil {
		return ok("folders", "all are there, or can be made, with safe permissions")
	}
	return list
}

// folder is one that podstead writes to.
func (h *Host) folder(what, path string) []Finding {
	at := h.nearest(path)
	fi, err := os.Stat(h.path(at))
	switch {
	case err != nil:
		return fail("folders", "ls -ld "+at, "cannot look at the %s: %v", what, err)
	case !fi.IsDir():
		return fail("folders", fmt.Sprintf("mv %[1]s %[1]s.old", at), "the %s %s cannot be: %s is no folder", what, path, at)
	}
	if space, err := h.Space(h.path(at)); err == nil && space.ReadOnly {
		return fail("folders", "mount -o remount,rw "+at, "the %s %s is on a file system that is mounted read-only", what, path)
	}
	if at == path && fi.Mode().Perm()&0o002 != 0 && fi.Mode()&os.ModeSticky == 0 {
		return fail("folders", "chmod o-w "+path, "everybody may write to the %s %s, and so could do what root can", what, path)
	}
	return nil
}

// manifests: who may write there is root.
func (h *Host) manifests(path string) []Finding {
	if path == "" {
		return nil
	}
	fi, err := os.Stat(h.path(path))
	switch {
	case os.IsNotExist(err):
		return warn("manifests", "mkdir -p "+path, "there is no %s, and so no pod to run; podstead takes it up when it is made", path)
	case err != nil:
		return fail("manifests", "ls -ld "+path, "cannot read %s: %v", path, err)
	case fi.Mode().Perm()&0o002 != 0:
		return fail("manifests", "chmod o-w "+path, "everybody may write to %s, and so run anything as root", path)
	}
	return ok("manifests", "%s is there, and only its owner and group may write to it", path)
}
