package config

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/node/cgroup"
)

// SystemCgroups are the settings of the cgroups of processes outside of pods.
type SystemCgroups struct {
	// SystemCgroup and KubeCgroup are the cgroups of system services, and of podstead and the
	// runtime, empty if not set.
	SystemCgroup, KubeCgroup string
	// ReservedCgroups are those of them that are limited to what is reserved for them.
	ReservedCgroups []cgroup.ReservedCgroup

	enforce []string
}

// compressibleSuffix ends the levels of enforcement of which only CPU shares are set.
const compressibleSuffix = "-compressible"

// checkEnforced validates enforceNodeAllocatable by the kubelet's rules, and sets the reserved
// cgroups.
func (c *Cgroups) checkEnforced() error {
	c.ReservedCgroups = nil
	levels := slices.DeleteFunc(slices.Clone(c.enforce), func(level string) bool { return level == "" })
	seen := map[string]bool{}
	for _, level := range levels {
		base := strings.TrimSuffix(level, compressibleSuffix)
		if seen[base] {
			return fmt.Errorf("--enforce-node-allocatable: %s is in the list twice; remove one", base)
		}
		seen[base] = true
		switch {
		case level == enforcePods:
		case level == enforceNone && len(levels) > 1:
			return fmt.Errorf("--enforce-node-allocatable: %s excludes all others; remove it, or the others", enforceNone)
		case level == enforceNone:
		case base == "system-reserved":
			if err := c.reserve(level, c.SystemCgroup, 0); err != nil {
				return err
			}
		case base == "kube-reserved":
			if err := c.reserve(level, c.KubeCgroup, 1); err != nil {
				return err
			}
		default:
			return fmt.Errorf("--enforce-node-allocatable: %q is not supported; use pods, system-reserved, kube-reserved (each of these two also with %s), or none", level, compressibleSuffix)
		}
	}
	return nil
}

// reserve adds a reserved cgroup. from is the index in Reserved.
func (c *Cgroups) reserve(level, at string, from int) error {
	flag := strings.TrimSuffix(level, compressibleSuffix)
	if at == "" {
		return fmt.Errorf("--enforce-node-allocatable: %s needs the cgroup to limit; set --%s-cgroup, or remove %s", level, flag, level)
	}
	if !path.IsAbs(at) {
		return fmt.Errorf("--%s-cgroup: %q must be an absolute path in the cgroup hierarchy, such as /system.slice", flag, at)
	}
	if len(c.Reserved[from]) == 0 {
		return fmt.Errorf("--enforce-node-allocatable: %s limits the cgroup to --%s, which is empty; set it, or remove %s", level, flag, level)
	}
	c.ReservedCgroups = append(c.ReservedCgroups, cgroup.ReservedCgroup{
		Field: "--" + flag + "-cgroup", Path: at, Resources: c.Reserved[from], Compressible: strings.HasSuffix(level, compressibleSuffix),
	})
	return nil
}

// unused returns the settings that have no effect, because enforceNodeAllocatable does not name
// them.
func (c *Cgroups) unused() (notices []string) {
	for flag, at := range map[string]string{"system-reserved": c.SystemCgroup, "kube-reserved": c.KubeCgroup} {
		named := slices.ContainsFunc(c.enforce, func(level string) bool { return strings.TrimSuffix(level, compressibleSuffix) == flag })
		if at != "" && !named {
			notices = append(notices, fmt.Sprintf("--%s-cgroup has no effect without %s in --enforce-node-allocatable (enforceNodeAllocatable)", flag, flag))
		}
	}
	slices.Sort(notices)
	return notices
}

// checkReservedCgroups returns an error for cgroups that this host does not have. root is that of
// checkHost.
func (c *Cgroups) checkReservedCgroups(root string) error {
	if len(c.ReservedCgroups) == 0 {
		return nil
	}
	reader, err := cgroup.OpenReader(filepath.Join(root, "proc/self/mountinfo"))
	if err != nil {
		return fmt.Errorf("%s: %w", c.ReservedCgroups[0].Field, err)
	}
	var errs []error
	for i := range c.ReservedCgroups {
		errs = append(errs, c.ReservedCgroups[i].Check(reader, c.Root))
	}
	return errors.Join(errs...)
}

// checkReservations returns an error if more of a resource is reserved than the node has, as the
// kubelet does: no pod could start.
func (o *Options) checkReservations() error {
	capacity := cgroup.NodeCapacity(o.Cgroups.Root)
	if storage, ok := storageOf(o.Paths.Root); ok {
		capacity[v1.ResourceEphemeralStorage] = storage
	}
	parts := []struct {
		flag string
		list v1.ResourceList
	}{{"system-reserved", o.Cgroups.Reserved[0]}, {"kube-reserved", o.Cgroups.Reserved[1]}, {"eviction-hard", o.Eviction.HardReserved(capacity)}}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(capacity)) {
		has, sum, largest := capacity[name], resource.Quantity{}, 0
		var texts []string
		for i, part := range parts {
			amount, ok := part.list[name]
			if !ok || amount.IsZero() {
				continue
			}
			sum.Add(amount)
			texts = append(texts, fmt.Sprintf("%s of --%s", amount.String(), part.flag))
			if most := parts[largest].list[name]; amount.Cmp(most) > 0 {
				largest = i
			}
		}
		if sum.Cmp(has) > 0 {
			errs = append(errs, fmt.Errorf("--%s: resource %q has a reservation of %s but capacity of %s, expected capacity >= reservation: the sum is %s; reserve less",
				parts[largest].flag, name, sum.String(), has.String(), strings.Join(texts, ", ")))
		}
	}
	return errors.Join(errs...)
}

// storageOf returns the size of the file system of a directory, which may be created later.
func storageOf(dir string) (resource.Quantity, bool) {
	var fs unix.Statfs_t
	for {
		err := unix.Statfs(dir, &fs)
		if err == nil {
			return *resource.NewQuantity(int64(fs.Blocks)*int64(fs.Bsize), resource.BinarySI), true
		}
		if !errors.Is(err, unix.ENOENT) || dir == filepath.Dir(dir) {
			return resource.Quantity{}, false
		}
		dir = filepath.Dir(dir)
	}
}
