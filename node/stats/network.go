package stats

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/internal/usage"
)

// measureTraffic reads the interfaces of each pod that has its own network
// namespace, through the first process in its sandbox.
func (c *Collector) measureTraffic(ctx context.Context,
	_ map[types.UID][]usage.Interface) (map[types.UID][]usage.Interface, error) {
	all := map[types.UID][]usage.Interface{}
	hostNetwork, _ := os.Readlink(filepath.Join(c.cfg.proc, "self/ns/net"))
	unseen := map[string]types.UID{}
	observed := c.cfg.Observed()
	for i := range observed {
		pod := &observed[i]
		if !pod.SandboxReady {
			continue
		}
		pid := 0
		if path := c.cgroupPaths.find(c.cfg.Cgroups, podCgroup(pod), pod.SandboxID); path != "" {
			pid = c.cfg.Cgroups.FirstProcess(path)
		}
		if pid == 0 {
			unseen[pod.SandboxID] = pod.UID
			continue
		}
		process := filepath.Join(c.cfg.proc, strconv.Itoa(pid))
		if network, err := os.Readlink(filepath.Join(process, "ns/net")); err != nil || network == hostNetwork {
			continue // the process has just ended, or the pod uses the node's network
		}
		if list := readInterfaces(filepath.Join(process, "net/dev")); len(list) > 0 {
			all[pod.UID] = list
		}
	}
	if len(unseen) == 0 {
		return all, nil
	}
	sandboxes, err := c.cfg.Runtime.SandboxUsage(ctx)
	if err != nil {
		return all, nil // the traffic of some pods is missing; that is no failure
	}
	for i := range sandboxes {
		if uid, ok := unseen[sandboxes[i].ID]; ok {
			all[uid] = sandboxes[i].Interfaces
		}
	}
	return all, nil
}

// maxNetDev is how much of a net/dev file is read, in bytes: 5000 interfaces. A container
// with CAP_NET_ADMIN can create more.
const maxNetDev = 1 << 20

// readInterfaces reads a net/dev file, without the loopback interface. A missing
// file has none.
func readInterfaces(file string) (list []usage.Interface) {
	data, err := boundedfile.Head(file, maxNetDev)
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
		list = append(list, usage.Interface{
			Name: name, RxBytes: n[0], RxPackets: n[1], RxErrors: n[2], RxDropped: n[3],
			TxBytes: n[8], TxPackets: n[9], TxErrors: n[10], TxDropped: n[11],
		})
	}
	return list
}
