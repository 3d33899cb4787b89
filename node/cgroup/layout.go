package cgroup

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Driver is how cgroups are created.
type Driver string

// The drivers by the kubelet's names.
const (
	Cgroupfs Driver = "cgroupfs"
	Systemd  Driver = "systemd"
)

// systemdDirectory exists while systemd is process 1, as sd_booted(3) has it.
const systemdDirectory = "/run/systemd/system"

// DefaultDriver is the usual driver of a runtime that does not report its own:
// systemd on a systemd host with cgroup v2, otherwise cgroupfs.
func DefaultDriver(v2 bool) Driver {
	if _, err := os.Stat(systemdDirectory); err == nil && v2 {
		return Systemd
	}
	return Cgroupfs
}

// The tiers below the root; Guaranteed pods are in the root itself.
const (
	tierBurstable  = "burstable"
	tierBestEffort = "besteffort"

	podPrefix   = "pod"
	sliceSuffix = ".slice"
)

// cgroupName is the path of a cgroup as a list, from the top.
type cgroupName []string

func (n cgroupName) child(part string) cgroupName { return append(slices.Clone(n), part) }

// rootName returns the name of a root given as a path.
func rootName(root string) cgroupName {
	return strings.Split(strings.Trim(path.Clean("/"+root), "/"), "/")
}

// path returns the path of the cgroup in each hierarchy. With systemd every
// ancestor is a slice, whose name contains those of its ancestors.
func (d Driver) path(n cgroupName) string {
	if d != Systemd {
		return "/" + strings.Join(n, "/")
	}
	p := "/"
	for i := range n {
		p = path.Join(p, slice(n[:i+1]))
	}
	return p
}

// slice returns the systemd unit of a cgroup. A dash separates the names of
// slices, so that within a name it becomes an underscore, as at the kubelet.
func slice(n cgroupName) string {
	parts := make([]string, len(n))
	for i, part := range n {
		parts[i] = strings.ReplaceAll(part, "-", "_")
	}
	return strings.Join(parts, "-") + sliceSuffix
}

// parent returns a cgroup as the runtime takes it for cgroup_parent: a path, or
// the name of a slice, from which it also detects the driver.
func (d Driver) parent(n cgroupName) string {
	if d == Systemd {
		return slice(n)
	}
	return d.path(n)
}

// cgroupPath returns the path of a cgroup_parent.
func cgroupPath(parent string) string {
	base, ok := strings.CutSuffix(path.Base(parent), sliceSuffix)
	if !ok {
		return path.Clean(parent)
	}
	return Systemd.path(strings.Split(base, "-"))
}

// podName is the name of a pod's cgroup in its tier.
func podName(uid types.UID) string { return podPrefix + string(uid) }

// isPodCgroup reports whether a cgroup_parent is the cgroup of a pod.
func isPodCgroup(parent string, uid types.UID) bool {
	if base, ok := strings.CutSuffix(path.Base(parent), sliceSuffix); ok {
		return strings.HasSuffix(base, "-"+strings.ReplaceAll(podName(uid), "-", "_"))
	}
	return path.IsAbs(parent) && path.Clean(parent) == parent && path.Base(parent) == podName(uid)
}

// validUID is checked here again although manifests were validated: processes in
// paths made of it are killed.
var validUID = regexp.MustCompile(`^[A-Za-z0-9-]{1,63}$`)

func checkUID(uid types.UID) error {
	if !validUID.MatchString(string(uid)) {
		return fmt.Errorf("invalid UID %q: must be 1 to 63 characters of A-Z, a-z, 0-9 and -", uid)
	}
	return nil
}

// possibleNames returns all names that the cgroup of a pod can have, whatever its
// QoS class.
func possibleNames(root cgroupName, uid types.UID) []cgroupName {
	pod := podName(uid)
	return []cgroupName{root.child(pod), root.child(tierBurstable).child(pod), root.child(tierBestEffort).child(pod)}
}

// podCgroup returns the name of a pod's cgroup.
func podCgroup(root cgroupName, pod *v1.Pod) cgroupName {
	switch podinfo.QOSClass(pod) {
	case v1.PodQOSBurstable:
		root = root.child(tierBurstable)
	case v1.PodQOSBestEffort:
		root = root.child(tierBestEffort)
	}
	return root.child(podName(pod.UID))
}

// podsIn returns the pods that have cgroups in the directory of a tier. systemd's
// names have an underscore for each dash of a UID, which has no underscores.
func (d Driver) podsIn(dir string, tier cgroupName) []types.UID {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var uids []types.UID
	for _, e := range entries {
		text := e.Name()
		if d == Systemd {
			rest, ok := strings.CutPrefix(text, strings.TrimSuffix(slice(tier), sliceSuffix)+"-")
			if !ok || !strings.HasSuffix(rest, sliceSuffix) {
				continue
			}
			text = strings.ReplaceAll(strings.TrimSuffix(rest, sliceSuffix), "_", "-")
		}
		if uid, ok := strings.CutPrefix(text, podPrefix); ok && e.IsDir() && checkUID(types.UID(uid)) == nil {
			uids = append(uids, types.UID(uid))
		}
	}
	return uids
}
