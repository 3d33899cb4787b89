package config

import (
	"bytes"
	"cmp"
	"path/filepath"
	"strings"

	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/node/cgroup"
)

// maxSwaps bounds /proc/swaps.
const maxSwaps = 64 << 10

// check validates settings of cgroups that this host cannot honour. root is the directory of the
// host's /proc, empty for "/".
func (c *Cgroups) check(t *table, root string) {
	c.checkEnforced(t)
	root = cmp.Or(root, "/")
	if s := t.at(&c.failSwapOn); c.failSwapOn {
		used, err := swaps(filepath.Join(root, "proc/swaps"))
		switch {
		case err != nil:
			t.fail("%s: failed to read whether swap is on: %w", s, err)
		case len(used) > 0:
			t.fail("%s: is true, but swap is on (%s); turn it off (swapoff -a, and remove it from /etc/fstab), or set %s to "+
				"false: only memorySwap lets containers swap then", s, strings.Join(used, ", "), s)
		}
	}
	if s := t.at(&c.SingleProcessOOMKill); s.isSet() && !c.SingleProcessOOMKill {
		if r, err := cgroup.OpenReader(filepath.Join(root, "proc/self/mountinfo")); err == nil && !r.V2() {
			t.fail("%s: false is not supported on this node: the kernel kills a whole container only with cgroup v2; remove "+
				"the field, or boot with systemd.unified_cgroup_hierarchy=1", s)
		}
	}
	c.checkReservedCgroups(t, root)
}

// swaps returns the devices and files that are used for swap.
func swaps(file string) (used []string, err error) {
	data, err := boundedfile.Head(file, maxSwaps)
	if err != nil {
		return nil, err
	}
	for i, line := range bytes.Split(data, []byte("\n")) {
		if fields := bytes.Fields(line); i > 0 && len(fields) > 0 {
			used = append(used, string(fields[0]))
		}
	}
	return used, nil
}
