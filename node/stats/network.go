package stats

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// measureTraffic reads the interfaces of each pod that has a network of its
// own, as the first process in its sandbox sees them.
func (c *Collector) measureTraffic(ctx context.Context, _ map[types.UID][]Interface) (map[types.UID][]Interface, error) {
	all := map[types.UID][]Interface{}
	own, _ := os.Readlink(filepath.Join(c.cfg.proc, "self/ns/net"))
	unseen := map[string]types.UID{}
	for _, pod := range c.cfg.Observed().Own {
		if len(pod.Sandboxes) == 0 || !pod.Sandboxes[0].Ready {
			continue
		}
		id := pod.Sandboxes[0].ID
		pid := 0
		if path := c.found.find(c.cfg.Cgroups, podPath(pod), id); path != "" {
			pid = c.cfg.Cgroups.First(path)
		}
		if pid == 0 {
			unseen[id] = pod.UID
			continue
		}
		process := filepath.Join(c.cfg.proc, strconv.Itoa(pid))
		if its, err := os.Readlink(filepath.Join(process, "ns/net")); err != nil || its == own {
			continue // it has just ended, or has the node's network
		}
		if list := interfaces(filepath.Join(process, "net/dev")); len(list) > 0 {
			all[pod.UID] = list
		}
	}
	if len(unseen) == 0 {
		return all, nil
	}
	told, err := c.cfg.Runtime.SandboxStats(ctx)
	if err != nil {
		return all, nil // figures of some pods are missing, and that is all
	}
	for i := range told {
		if uid, ok := unseen[told[i].ID]; ok {
			all[uid] = toldInterfaces(told[i].Interfaces)
		}
	}
	return all, nil
}

func toldInterfaces(told []cri.InterfaceStats) (list []Interface) {
	for _, t := range told {
		list = append(list, Interface{
			Name: t.Name, RxBytes: t.RxBytes, RxErrors: t.RxErrors, TxBytes: t.TxBytes, TxErrors: t.TxErrors,
		})
	}
	return list
}

// interfaces reads a net/dev file, without the loopback. One that is gone has
// none.
func interfaces(file string) (list []Interface) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		name, rest, ok := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if name = strings.TrimSpace(name); !ok || name == "lo" || len(fields) < 16 {
			continue
		}
		n := make([]uint64, len(fields))
		for i := range fields {
			n[i], _ = strconv.ParseUint(fields[i], 10, 64) // the kernel writes numbers
		}
		list = append(list, Interface{name, n[0], n[1], n[2], n[3], n[8], n[9], n[10], n[11]})
	}
	return list
}
