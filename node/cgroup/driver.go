package cgroup

import (
	"cmp"
	"context"
	"os"
)

// DriverSettings are what the settings of the node say about the driver; both may be empty.
type DriverSettings struct {
	// Set overrides the driver that the runtime reports, Hint applies if it reports none.
	Set, Hint string
}

// Choose returns the driver that is set, else the one that the runtime reports, else the hint, else the usual one.
// v2 reports that the host has cgroup v2.
func (s DriverSettings) Choose(ctx context.Context, reported func(context.Context) (string, error), v2 bool) (Driver,
	error) {
	if s.Set != "" {
		return Driver(s.Set), nil
	}
	of, err := reported(ctx)
	switch {
	case err != nil:
		return "", err
	case of != "":
		return Driver(of), nil
	case s.Hint != "":
		return Driver(s.Hint), nil
	}
	return DefaultDriver(v2), nil
}

// OfRuntime returns the settings with which pods use the driver that a private runtime reports. While containers
// run it keeps the one that they were created with, whatever is set since: with
// systemd it starts no container in a cgroup that is no slice.
func (s DriverSettings) OfRuntime() DriverSettings {
	return DriverSettings{Hint: cmp.Or(s.Set, s.Hint)}
}

// UseSystemd reports whether systemd creates the cgroups of a private containerd. It must be the
// init process: without it the driver could start no container,
// so that no setting chooses it then; the configuration of a kubelet often has it, and was only a
// hint. Without a setting it must also manage the controllers, as it does on cgroup v2. There it may
// undo limits that it does not know; on v1 it leaves the cgroups of others alone, and with cgroupfs no
// shutdown signals all containers at once.
func (s DriverSettings) UseSystemd() bool {
	return s.useSystemd(systemdDirectory, "/proc/self/mountinfo")
}

// useSystemd is UseSystemd with the directory that exists while systemd is the init process, and the mounts.
func (s DriverSettings) useSystemd(booted, mountinfo string) bool {
	driver := cmp.Or(s.Set, s.Hint)
	if driver == string(Cgroupfs) {
		return false
	}
	fi, err := os.Lstat(booted)
	if err != nil || !fi.IsDir() {
		return false
	}
	if driver == string(Systemd) {
		return true
	}
	r, err := OpenReader(mountinfo)
	return err == nil && r.V2()
}
