package preflight

import "time"

// Settings are the settings of the daemon that the host must meet. It has a field for each group of
// checks.
type Settings struct {
	// Root, PodLogs and Manifests are directories; Manifests can also be a file, and
	// is empty if there is none. Socket is the path of the daemon's API socket.
	Root, PodLogs, Manifests, Socket string
	// Ports are the addresses that the daemon opens, by their purpose.
	Ports map[string]string
	// Running is the process ID of the daemon, 0 if it is not running.
	Running    int
	CNI        CNI
	ResolvConf string
	// NodeIP reports that the node's address is given by a flag.
	NodeIP bool
	// RouteLocalnet are the interfaces with the setting route_localnet. LocalnetRule
	// reports that podstead's rule keeps packets of others from loopback addresses.
	RouteLocalnet []string
	LocalnetRule  bool
	// PodDNS is the state of the name server of pods.
	PodDNS PodDNS
	// MinFree returns what must be free for a signal of eviction, such as nodefs.available, on a
	// file system with a capacity; 0 without a hard threshold.
	MinFree func(signal string, capacity int64) int64
	// CgroupDriver is the configured driver; empty for the runtime's.
	CgroupDriver string
	// Built is the build time of this program; zero if unknown.
	Built   time.Time
	Runtime Runtime
}

// CNI are the settings of the pod network.
type CNI struct {
	// ConfDir and BinDirs are the directories of configurations and plugins; the first
	// plugin found is used.
	ConfDir string
	BinDirs []string
	// NewConfig is a configuration of one bridge that overlaps no network of this host;
	// empty if there is none.
	NewConfig string
}

// Runtime is the result of querying the container runtime.
type Runtime struct {
	// Endpoint is unix:///path. Private reports that it is podstead's private
	// containerd, which may not be running yet. It is empty if it is unknown because of Err.
	Endpoint string
	Private  bool
	// Log is the log file of the private containerd, empty for another runtime, which
	// logs to the journal.
	Log string
	RuntimeProcess
	// Err is why the runtime could not be queried, nil if it could.
	Err error
	// Name and Version are for example containerd and 1.6.20.
	Name, Version string
	// NotReady and NoNetwork say why it cannot run pods, empty if it can.
	NotReady, NoNetwork string
	// CgroupDriver is systemd or cgroupfs, empty if the runtime does not report it.
	CgroupDriver string
	// PauseImage is the sandbox image, empty if the runtime does not report it.
	// PauseMissing reports that the image has not been pulled.
	PauseImage   string
	PauseMissing bool
	// RestrictsOOMScore reports that it starts pods without CAP_SYS_RESOURCE; nil if it does not report it.
	RestrictsOOMScore *bool
	Images            ImageStore
}

// ImageStore is where a runtime has its images, and how it keeps them.
type ImageStore struct {
	// Dir is a directory on their file system, empty if the runtime does not report it.
	Dir string
	// SyncsLayers reports that a containerd is configured to sync the layers that it unpacks.
	SyncsLayers bool
}

// RuntimeProcess is the process that serves the endpoint of a runtime.
type RuntimeProcess struct {
	// PID is 0 if it is unknown. ConfigFile is the configuration file that it was started with, empty for its default.
	PID        int
	ConfigFile string
}

// groups are all checks by what they are about, in the order in which a user would fix their findings.
var groups = []struct {
	name   string
	checks []func(*Host, *Settings) []Finding
}{
	{"daemon", []func(*Host, *Settings) []Finding{daemon, user, capabilities, kubelets}},
	{"runtime", []func(*Host, *Settings) []Finding{runtimeStatus, pauseImage, imageSync, binaries}},
	{"network", []func(*Host, *Settings) []Finding{
		network, iptables, forwarding, bridgeFilter, loopback, resolver, podDNS, route, ports}},
	{"kernel", []func(*Host, *Settings) []Finding{
		hierarchies, controllers, cgroupDriver, overlay, kernelSettings, inotify, swap}},
	{"storage", []func(*Host, *Settings) []Finding{directories, disks}},
	{"node", []func(*Host, *Settings) []Finding{clock, machineID}},
}

// Run runs all checks.
func Run(h Host, s Settings) (list []Finding) {
	for _, g := range groups {
		for _, check := range g.checks {
			for _, f := range check(&h, &s) {
				f.Group = g.name
				list = append(list, f)
			}
		}
	}
	return list
}
