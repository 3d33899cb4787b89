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
func (c *Cgroups) checkEnforced(t *table) {
	c.ReservedCgroups = nil
	enforce := t.at(&c.enforce)
	levels := slices.DeleteFunc(slices.Clone(c.enforce), func(level string) bool { return level == "" })
	seen := map[string]bool{}
	for _, level := range levels {
		base := strings.TrimSuffix(level, compressibleSuffix)
		if seen[base] {
			t.fail("%s: %s is in the list twice; remove one", enforce, base)
			return
		}
		seen[base] = true
		switch {
		case level == enforcePods:
		case level == enforceNone && len(levels) > 1:
			t.fail("%s: %s excludes all others; remove it, or the others", enforce, enforceNone)
			return
		case level == enforceNone:
		case base == "system-reserved":
			c.reserve(t, level, &c.SystemCgroup, &c.systemReserved, 0)
		case base == "kube-reserved":
			c.reserve(t, level, &c.KubeCgroup, &c.kubeReserved, 1)
		default:
			t.fail("%s: %q is not supported; use pods, system-reserved, kube-reserved (each of these two also with %s), or "+
				"none", enforce, level, compressibleSuffix)
		}
	}
}

// reserve adds a reserved cgroup, from the entry i of Reserved.
func (c *Cgroups) reserve(t *table, level string, at *string, amounts *map[string]string, i int) {
	enforce, field, reserved := t.at(&c.enforce), t.at(at), t.at(amounts)
	switch {
	case *at == "":
		t.fail("%s: %s needs the cgroup to limit; set %s, or remove %s", enforce, level, field, level)
	case !path.IsAbs(*at):
		t.fail("%s: %q must be an absolute path in the cgroup hierarchy, such as /system.slice", field, *at)
	case reserved.broken:
	case len(c.Reserved[i]) == 0:
		t.fail("%s: %s limits the cgroup to %s, which is empty; set it, or remove %s", enforce, level, reserved, level)
	default:
		c.ReservedCgroups = append(c.ReservedCgroups, cgroup.ReservedCgroup{
			Field: "--" + field.flag, Path: *at, Resources: c.Reserved[i], Compressible: strings.HasSuffix(level,
				compressibleSuffix),
		})
	}
}

// unused returns the settings that have no effect, because enforceNodeAllocatable does not name
// them.
func (c *Cgroups) unused() (notices []string) {
	for flag, at := range map[string]string{"system-reserved": c.SystemCgroup, "kube-reserved": c.KubeCgroup} {
		named := slices.ContainsFunc(c.enforce, func(level string) bool {
			return strings.TrimSuffix(level,
				compressibleSuffix) == flag
		})
		if at != "" && !named {
			notices = append(notices, fmt.Sprintf("--%s-cgroup has no effect without %s in --enforce-node-allocatable "+
				"(enforceNodeAllocatable)", flag, flag))
		}
	}
	slices.Sort(notices)
	return notices
}

// checkReservedCgroups validates that this host has the cgroups. root is that of check.
func (c *Cgroups) checkReservedCgroups(t *table, root string) {
	if len(c.ReservedCgroups) == 0 || !t.sound(&c.Root) {
		return
	}
	reader, err := cgroup.OpenReader(filepath.Join(root, "proc/self/mountinfo"))
	for i := range c.ReservedCgroups {
		r := &c.ReservedCgroups[i]
		s := t.at(&c.SystemCgroup)
		if r.Field != "--"+s.flag {
			s = t.at(&c.KubeCgroup)
		}
		if err == nil {
			err = r.Check(reader, c.Root)
		}
		if err != nil {
			t.fail("%s: %w", s, err)
		}
	}
}

// checkReservations validates that no more of a resource is reserved than the node has, as the
// kubelet does: no pod could start.
func (o *Options) checkReservations(t *table) {
	c := &o.Cgroups
	if !t.sound(&c.systemReserved, &c.kubeReserved, &c.Root, &o.CPUs.reserved, &o.Eviction.hard, &o.Paths.Root) {
		return
	}
	capacity := cgroup.NodeCapacity(c.Root)
	if storage, ok := storageOf(o.Paths.Root); ok {
		capacity[v1.ResourceEphemeralStorage] = storage
	}
	parts := []struct {
		from *setting
		list v1.ResourceList
	}{{t.at(&c.systemReserved), c.Reserved[0]}, {t.at(&c.kubeReserved), c.Reserved[1]}, {t.at(&o.Eviction.hard),
		o.Eviction.HardReserved(capacity)}}
	for _, name := range slices.Sorted(maps.Keys(capacity)) {
		has, sum, largest := capacity[name], resource.Quantity{}, 0
		var texts []string
		for i, part := range parts {
			amount, ok := part.list[name]
			if !ok || amount.IsZero() {
				continue
			}
			sum.Add(amount)
			texts = append(texts, fmt.Sprintf("%s of %s", amount.String(), part.from))
			if most := parts[largest].list[name]; amount.Cmp(most) > 0 {
				largest = i
			}
		}
		if sum.Cmp(has) > 0 {
			t.failAt(parts[largest].from, ": resource %q has a reservation of %s but capacity of %s, expected capacity >= "+
				"reservation: the sum is %s; reserve less",
				name, sum.String(), has.String(), strings.Join(texts, ", "))
		}
	}
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
