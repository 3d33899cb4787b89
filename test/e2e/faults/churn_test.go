package faults

import (
	"bufio"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// runtimeObjects counts what pods use on a private runtime and in the kernel.
type runtimeObjects struct {
	Sandboxes, Containers, Shims, Snapshots, Leases, Cgroups int
}

// countRuntimeObjects counts what the runtime and the kernel hold for the node's pods.
func countRuntimeObjects(n *harness.Node) (runtimeObjects, error) {
	var o runtimeObjects
	sandboxes, err := n.Runtime.CRI.Sandboxes(n.T.Context(), "", "")
	if err != nil {
		return o, err
	}
	containers, err := n.Runtime.CRI.Containers(n.T.Context(), "", "")
	if err != nil {
		return o, err
	}
	o.Sandboxes, o.Containers = len(sandboxes), len(containers)
	o.Shims = len(shims(n.Runtime))
	snapshots, err := filepath.Glob(filepath.Join(n.Runtime.Dir(), "root/io.containerd.snapshotter.v1.*/snapshots/*"))
	if err != nil {
		return o, err
	}
	leases, err := filepath.Glob(filepath.Join(n.Runtime.Dir(), "ipam/*/10.*"))
	if err != nil {
		return o, err
	}
	o.Snapshots, o.Leases = len(snapshots), len(leases)
	o.Cgroups, err = podCgroups(n)
	return o, err
}

// shims returns the command lines of the runtime's shims.
func shims(rt *testbed.Runtime) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, _ := os.ReadFile(file) // the process may have ended
		if text := strings.ReplaceAll(string(line), "\x00", " "); strings.Contains(text, "containerd-shim") &&
			strings.Contains(text, rt.Socket) {
			found = append(found, text)
		}
	}
	return found
}

// podCgroups counts the cgroups of the node's pods in all hierarchies.
func podCgroups(n *harness.Node) (int, error) {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	count, seen := 0, map[string]bool{}
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 3 || !strings.HasPrefix(fields[2], "cgroup") || seen[fields[1]] {
			continue
		}
		seen[fields[1]] = true
		_ = filepath.WalkDir(filepath.Join(fields[1], n.CgroupRoot()), func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "pod") && len(d.Name()) > 20 {
				count++
			}
			return nil
		})
	}
	return count, nil
}

// Pods that are edited and removed while they start, and a daemon that is stopped
// meanwhile, leave nothing in the runtime or in the kernel but what the present pods
// need.
func TestChurnDuringStartsLeavesNothing(t *testing.T) {
	harness.OnEachPrivateRuntime(t, func(t *testing.T, n *harness.Node) {
		const pods, changes, stops = 6, 150, 5
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		write := func(i int, word string) {
			name := fmt.Sprintf("p%d", i)
			n.WriteManifest(name+".yaml", harness.SleepPod(name, word))
		}
		n.MustStart()
		for i := range pods {
			write(i, "first")
		}
		for i := range pods {
			n.AwaitReady(fmt.Sprintf("p%d", i))
		}
		want, err := countRuntimeObjects(n)
		if err != nil {
			t.Fatal(err)
		}
		if want.Sandboxes != pods || want.Containers != pods || want.Shims != pods || want.Leases != pods ||
			want.Cgroups < pods {
			t.Fatalf("%d pods have %+v", pods, want)
		}
		exists := make([]bool, pods)
		for change := range changes {
			i := random.IntN(pods)
			if exists[i] && random.IntN(3) == 0 {
				n.RemoveManifest(fmt.Sprintf("p%d.yaml", i))
				exists[i] = false
			} else {
				write(i, fmt.Sprint(change))
				exists[i] = true
			}
			// The time of one start: any step of it is in flight.
			<-time.After(time.Duration(random.IntN(250)) * time.Millisecond)
			if change%(changes/stops) == 0 {
				if err := n.Stop(); err != nil {
					t.Fatal(err)
				}
				n.MustStart()
			}
		}
		for i := range pods {
			write(i, "last")
		}
		for i := range pods {
			n.AwaitRevision(fmt.Sprintf("p%d", i), "last")
		}
		n.Await("nothing but what the present pods need", func() error {
			got, err := countRuntimeObjects(n)
			if err == nil && got != want {
				err = fmt.Errorf("got %+v, want %+v", got, want)
			}
			return err
		})
	})
}
