package cgroup

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// systemd is the cgroup driver of a private containerd where it is the init process, and cgroup v2 is in
// use or the settings specify systemd. Nothing lets it use the driver on a host without systemd.
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
		settings          DriverSettings
		booted, mountinfo string
		want              bool
	}{
		{DriverSettings{}, booted, v2, true},
		{DriverSettings{}, booted, v1, false},
		{DriverSettings{}, filepath.Join(booted, "none"), v2, false},
		{DriverSettings{Set: "cgroupfs"}, booted, v2, false},
		{DriverSettings{Hint: "cgroupfs"}, booted, v2, false},
		{DriverSettings{Hint: "systemd"}, booted, v1, true},
		{DriverSettings{Set: "systemd", Hint: "cgroupfs"}, booted, v1, true},
		{DriverSettings{Hint: "systemd"}, filepath.Join(booted, "none"), v2, false},
		{DriverSettings{Set: "systemd"}, filepath.Join(booted, "none"), v2, false},
	} {
		if got := c.settings.useSystemd(c.booted, c.mountinfo); got != c.want {
			t.Errorf("%+v, %s: %t", c, c.mountinfo, got)
		}
	}
}

// Pods of a private containerd use its cgroup driver, also if --cgroup-driver has been changed since
// its containers were created. For another runtime the flag applies.
func TestDriverOfThePrivateContainerd(t *testing.T) {
	for _, used := range []string{"cgroupfs", "systemd"} {
		reported := func(context.Context) (string, error) { return used, nil }
		for _, flag := range []string{"", "cgroupfs", "systemd"} {
			s := DriverSettings{Set: flag, Hint: "cgroupfs"}
			got, err := s.Choose(t.Context(), reported, true)
			if want := cmp.Or(flag, used); err != nil || string(got) != want {
				t.Errorf("--cgroup-driver=%s of a runtime that uses %s: %s (%v)", flag, used, got, err)
			}
			private := s.OfRuntime()
			if got, err = private.Choose(t.Context(), reported, true); err != nil || string(got) != used {
				t.Errorf("--cgroup-driver=%s of a private containerd that uses %s: %s (%v)", flag, used, got, err)
			}
			if dir := t.TempDir(); private.useSystemd(dir, "/proc/self/mountinfo") != s.useSystemd(dir, "/proc/self/mountinfo") {
				t.Errorf("--cgroup-driver=%s: the driver of the next boot is another one", flag)
			}
		}
	}
}

// A runtime that reports no driver has the hint or the usual one; one that does not respond none yet.
func TestDriverThatIsNotReported(t *testing.T) {
	none := func(context.Context) (string, error) { return "", nil }
	if got, err := (DriverSettings{Hint: "systemd"}).Choose(t.Context(), none, false); err != nil || got != Systemd {
		t.Errorf("with a hint: %s, %v", got, err)
	}
	if got, err := (DriverSettings{}).Choose(t.Context(), none, false); err != nil || got != Cgroupfs {
		t.Errorf("on cgroup v1: %s, %v", got, err)
	}
	down := errors.New("the runtime is down")
	if _, err := (DriverSettings{Hint: "systemd"}).Choose(t.Context(),
		func(context.Context) (string, error) { return "", down }, true); !errors.Is(err, down) {
		t.Errorf("without an answer: %v", err)
	}
}
