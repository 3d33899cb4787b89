package preflight

import "time"

// Settings are those of the daemon, as far as the host has to fit them.
type Settings struct {
	// Root, PodLogs and Manifests are folders; Manifests may be a file, and is
	// empty if there is none. Socket is the daemon's own.
	Root, PodLogs, Manifests, Socket string
	// Ports are those that the daemon opens, by what they are for.
	Ports map[string]string
	// Running is the process of the daemon, 0 if none runs.
	Running int
	// CNIConfDir and CNIBinDirs are looked at, the first that has something.
	CNIConfDir string
	CNIBinDirs []string
	ResolvConf string
	// NodeIP: the node's address is given.
	NodeIP bool
	// CgroupDriver is what the daemon is told; empty for the runtime's own.
	CgroupDriver string
	// Built is when this program was made; the zero time is not known.
	Built   time.Time
	Runtime Runtime
}

// Runtime is what asking the container runtime came to.
type Runtime struct {
	// Endpoint is unix:///path. Private: it is a containerd of podstead's own,
	// which need not run yet.
	Endpoint string
	Private  bool
	// Err is why it could not be asked, nil if it could.
	Err error
	// Name and Version are such as containerd and 1.6.20.
	Name, Version string
	// NotReady and NoNetwork are why it cannot run pods, empty if it can.
	NotReady, NoNetwork string
	// CgroupDriver is systemd or cgroupfs, empty if it does not tell.
	CgroupDriver string
	// PauseImage is the image of sandboxes, empty if the runtime does not tell;
	// PauseMissing: it is not there.
	PauseImage   string
	PauseMissing bool
	// Images is a folder on the file system of its images, empty if it does not
	// tell.
	Images string
}

// Look looks at everything, in the order in which a person would mend it.
func Look(h Host, s Settings) []Finding {
	var list []Finding
	for _, look := range []func(*Host, *Settings) []Finding{
		daemon, user, capabilities, kubelets,
		runtimeAnswers, pauseImage, binaries,
		network, iptables, forwarding, bridgeFilter, resolver, route,
		hierarchies, controllers, cgroupDriver,
		overlay, kernelSettings, inotify, swap,
		ports, folders, disks, clock, machineID,
	} {
		list = append(list, look(&h, &s)...)
	}
	return list
}
