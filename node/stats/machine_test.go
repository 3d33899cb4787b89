package stats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/node/cgroup"
)

// machine is a fake host in a directory: /proc, v2 cgroups, pods, logs.
type machine struct {
	t    *testing.T
	root string
	rt   *fakeRuntime
	pods []*ObservedPod
}

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, root: t.TempDir(), rt: &fakeRuntime{}}
	m.write("mountinfo", fmt.Sprintf("30 20 0:1 / %s rw - cgroup2 none rw\n", m.path("cgroup")))
	m.write("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 300 kB\nCached: 200 kB\nBuffers: 10 kB\nInactive(file): 100 "+
		"kB\nAnonPages: 250 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n")
	m.write("proc/stat", "cpu  100 10 50 9999 50 1 2 7 5 5\nbtime 1700000000\n")
	m.write("proc/loadavg", "0.20 0.18 0.12 1/80 11206\n")
	m.write("proc/sys/kernel/pid_max", "32768\n")
	m.write("proc/sys/kernel/threads-max", "1000\n")
	m.write("proc/net/dev", netDev("eth0", 5))
	m.link("proc/self/ns/net", "net:[1]")
	m.cgroup("podstead", 3*time.Second, 4096, 1024, 9)
	return m
}

func netDev(name string, n int) string {
	return fmt.Sprintf("Inter-|   Receive |  Transmit\n face |bytes packets\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  "+
		"%s: %d 2 3 4 0 0 0 0 %d 6 7 8 0 0 0 0\n", name, n, n*2)
}

func (m *machine) path(parts ...string) string {
	return filepath.Join(append([]string{m.root}, parts...)...)
}

func (m *machine) write(file, text string) {
	m.t.Helper()
	file = m.path(file)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) link(name, to string) {
	m.t.Helper()
	name = m.path(name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Symlink(to, name); err != nil {
		m.t.Fatal(err)
	}
}

// cgroup creates a cgroup with these values, or updates it.
func (m *machine) cgroup(path string, cpu time.Duration, memory, inactive, processes int) {
	m.t.Helper()
	path = filepath.Join("cgroup", path)
	m.write(path+"/cpu.stat", fmt.Sprintf("usage_usec %d\n", cpu.Microseconds()))
	m.write(path+"/memory.current", fmt.Sprintln(memory))
	m.write(path+"/memory.max", "max\n")
	m.write(path+"/memory.stat", fmt.Sprintf("inactive_file %d\nanon %d\n", inactive, memory/2))
	m.write(path+"/pids.current", fmt.Sprintln(processes))
}

// pod adds a running pod with a cgroup of its own, a process in its sandbox and
// one container for each name.
func (m *machine) pod(uid string, containers ...string) *ObservedPod {
	parent := "/podstead/pod" + uid
	pod := &ObservedPod{
		UID: types.UID(uid), Name: uid, Namespace: "default",
		SandboxID: uid + "-sandbox", SandboxReady: true, CgroupParent: parent,
	}
	for _, name := range containers {
		pod.Containers = append(pod.Containers, ObservedContainer{ID: uid + "-" + name, Name: name, Running: true})
	}
	m.pods = append(m.pods, pod)
	return pod
}

func (m *machine) observed() (list []ObservedPod) {
	for _, pod := range m.pods {
		list = append(list, *pod)
	}
	return list
}

func (m *machine) logDirectory(namespace, name string, uid types.UID) string {
	return m.path("logs", namespace+"_"+name+"_"+string(uid))
}

func (m *machine) collector() *Collector {
	m.t.Helper()
	reader, err := cgroup.OpenReader(m.path("mountinfo"))
	if err != nil {
		m.t.Fatal(err)
	}
	return New(Config{
		Runtime: m.rt, Observed: m.observed, Cgroups: reader,
		Root: m.path("root"), LogDirectory: m.logDirectory, proc: m.path("proc"),
		statfs: func(path string) (usage.Filesystem, bool, error) {
			_, err := os.Stat(path)
			return usage.Filesystem{Capacity: 1000, Available: 400, Used: 600, Inodes: 100, InodesFree: 40, InodesUsed: 60},
				false, err
		},
	})
}

// fakeRuntime responds and counts calls.
type fakeRuntime struct {
	containers []usage.RuntimeContainer
	sandboxes  []usage.RuntimeSandbox
	images     []usage.RuntimeFilesystem
	fault      error
	calls      int
}

func (r *fakeRuntime) ContainerUsage(context.Context) ([]usage.RuntimeContainer, error) {
	r.calls++
	return r.containers, r.fault
}

func (r *fakeRuntime) SandboxUsage(context.Context) ([]usage.RuntimeSandbox, error) {
	r.calls++
	return r.sandboxes, r.fault
}

func (r *fakeRuntime) ImageUsage(context.Context) (images, containers []usage.RuntimeFilesystem, err error) {
	return r.images, nil, r.fault
}

var errUnavailable = errors.New("runtime unavailable")
