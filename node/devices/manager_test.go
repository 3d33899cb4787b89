package devices_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podstead/podstead/internal/device"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/node/devices"
	"github.com/podstead/podstead/node/plugins"
	"github.com/podstead/podstead/test/testbed/deviceplugin"
)

const dongle = "example.com/dongle"

// node is a manager that runs, with its directories.
type node struct {
	*devices.Manager
	t       *testing.T
	options devices.Options
	stop    func()
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "devices") // a short path: it has sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := &node{t: t, options: devices.Options{Dir: filepath.Join(dir, "plugins"),
		Checkpoint: filepath.Join(dir, "devices.json")}}
	n.start()
	t.Cleanup(func() { n.stop() })
	return n
}

// start starts a manager, as a daemon that starts.
func (n *node) start() {
	n.t.Helper()
	n.Manager = devices.New(n.options)
	listener, err := n.Open()
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	manager := n.Manager
	go func() { done <- manager.Run(ctx, listener) }()
	n.stop = func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			n.t.Errorf("Run: %v", err)
		}
		done <- nil
	}
}

func (n *node) restart() {
	n.t.Helper()
	n.stop()
	n.start()
}

func (n *node) plugin(o deviceplugin.Options) *deviceplugin.Plugin {
	n.t.Helper()
	o.Dir = n.options.Dir
	if o.Resource == "" {
		o.Resource = dongle
	}
	p, err := deviceplugin.Start(o)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(p.Stop)
	return p
}

// await waits until a condition holds, which is checked after each change.
func (n *node) await(what string, holds func() bool) {
	n.t.Helper()
	deadline := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-n.Changed():
		case <-time.After(20 * time.Millisecond): // the plugin's side has no event
		case <-deadline:
			n.t.Fatalf("it did not happen: %s", what)
		}
	}
}

func (n *node) awaitAllocatable(want int64) {
	n.t.Helper()
	n.await("allocatable devices", func() bool {
		_, allocatable := n.Resources()
		got, ok := allocatable[dongle]
		return ok && got.Value() == want
	})
}

func (n *node) allocate(pod *v1.Pod) {
	n.t.Helper()
	if err := n.Allocate(context.Background(), pod); err != nil {
		n.t.Fatalf("Allocate %s: %v", pod.Name, err)
	}
}

// ids returns the devices of a container, sorted.
func (n *node) ids(pod *v1.Pod, container string) (ids []string) {
	for _, r := range n.Status(pod.UID)[container] {
		for _, d := range r.Resources {
			ids = append(ids, string(d.ResourceID))
		}
	}
	slices.Sort(ids)
	return ids
}

func container(name string, count int64) v1.Container {
	c := v1.Container{Name: name}
	if count > 0 {
		q := *resource.NewQuantity(count, resource.DecimalSI)
		c.Resources = v1.ResourceRequirements{Limits: v1.ResourceList{dongle: q}, Requests: v1.ResourceList{dongle: q}}
	}
	return c
}

func pod(name string, count int64) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name),
			Annotations: map[string]string{podinfo.AnnotationSource: string(podinfo.SourceFile)}},
		Spec: v1.PodSpec{Containers: []v1.Container{container("main", count)}},
	}
}

func apiPod(name string, count int64) *v1.Pod {
	p := pod(name, count)
	p.Annotations[podinfo.AnnotationSource] = string(podinfo.SourceAPI)
	return p
}

func wantUnavailable(t *testing.T, u *device.Unavailable, requested, available int64, parts ...string) {
	t.Helper()
	if u == nil {
		t.Fatal("the devices are available")
	}
	if u.Resource != dongle || u.Requested != requested || u.Available != available {
		t.Errorf("got %s requested %d available %d, want %d and %d", u.Resource, u.Requested, u.Available, requested,
			available)
	}
	for _, part := range append(parts, dongle) {
		if !strings.Contains(u.Error(), part) {
			t.Errorf("%q lacks %q", u, part)
		}
	}
}

// A container gets what the plugin responds, and a pod waits for what another one has.
func TestAllocate(t *testing.T) {
	n := newNode(t)
	wantUnavailable(t, n.Check(pod("early", 1)), 1, 0, "no device plugin has registered",
		filepath.Join(n.options.Dir, "kubelet.sock"))
	n.plugin(deviceplugin.Options{Devices: []string{"a", "b"},
		Allocate: func(_ context.Context, ids []string) (*pluginapi.ContainerAllocateResponse, error) {
			return &pluginapi.ContainerAllocateResponse{
				Envs:        map[string]string{"DONGLES": strings.Join(ids, ",")},
				Annotations: map[string]string{"example.com/ids": "x"},
				Mounts:      []*pluginapi.Mount{{HostPath: "/etc", ContainerPath: "/host-etc", ReadOnly: true}},
				Devices:     []*pluginapi.DeviceSpec{{HostPath: "/dev/null", ContainerPath: "/dev/dongle", Permissions: "rw"}},
				CdiDevices:  []*pluginapi.CDIDevice{{Name: "example.com/dongle=a"}},
			}, nil
		}})
	n.awaitAllocatable(2)
	n.Withdraw(pod("early", 1).UID)
	first, second := pod("first", 1), pod("second", 2)
	n.allocate(first)
	got, err := n.Container(context.Background(), first, &first.Spec.Containers[0])
	if err != nil {
		t.Fatal(err)
	}
	if got.Env["DONGLES"] != "a" || got.Annotations["example.com/ids"] != "x" || len(got.CDI) != 1 ||
		len(got.Mounts) != 1 || !got.Mounts[0].ReadOnly ||
		len(got.Nodes) != 1 ||
		got.Nodes[0] != (device.Node{HostPath: "/dev/null", ContainerPath: "/dev/dongle", Permissions: "rw"}) {
		t.Errorf("the container gets %+v", got)
	}
	wantUnavailable(t, n.Check(second), 2, 1, "2 healthy", "1 of the healthy in use", "starts when devices are free")
	var u *device.Unavailable
	if err := n.Allocate(context.Background(), second); !errors.As(err, &u) {
		t.Errorf("Allocate returned %v", err)
	}
	if !slices.Contains(n.TakeChanged(), second.UID) {
		t.Error("a pod that waits is not notified")
	}
	n.Release(first.UID)
	n.allocate(second)
	if ids := n.ids(second, "main"); !slices.Equal(ids, []string{"a", "b"}) {
		t.Errorf("the pod has %v", ids)
	}
}

// Init containers run one after the other and leave their devices to the next container; a
// sidecar keeps its own.
func TestInitContainersShareDevices(t *testing.T) {
	n := newNode(t)
	n.plugin(deviceplugin.Options{Devices: []string{"a", "b", "c"}})
	n.awaitAllocatable(3)
	p := pod("web", 1)
	always := v1.ContainerRestartPolicyAlways
	sidecar := container("sidecar", 1)
	sidecar.RestartPolicy = &always
	p.Spec.InitContainers = []v1.Container{container("one", 2), sidecar, container("two", 2)}
	n.allocate(p)
	one, side, two, main := n.ids(p, "one"), n.ids(p, "sidecar"), n.ids(p, "two"), n.ids(p, "main")
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(one, side, two, main))))
	if len(one) != 2 || len(side) != 1 || len(two) != 2 || len(main) != 1 || len(all) != 3 {
		t.Errorf("the pod has %v %v %v %v", one, side, two, main)
	}
	if slices.Contains(two, side[0]) || slices.Contains(main, side[0]) {
		t.Errorf("the device %v of the sidecar is given twice: %v %v", side, two, main)
	}
}

// A restart of podstead keeps the devices of containers, also if the newest checkpoint cannot be
// read, and a plugin that comes back can be used again.
func TestRestart(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, file string){
		"clean":     func(*testing.T, string) {},
		"truncated": func(t *testing.T, file string) { check(t, os.Truncate(file, 10)) },
		"empty":     func(t *testing.T, file string) { check(t, os.Truncate(file, 0)) },
		"removed":   func(t *testing.T, file string) { check(t, os.Remove(file)) },
		"backup":    func(t *testing.T, file string) { check(t, os.Truncate(file+".backup", 3)) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			plugin := n.plugin(deviceplugin.Options{Devices: []string{"a", "b"},
				Allocate: func(_ context.Context, ids []string) (*pluginapi.ContainerAllocateResponse, error) {
					return &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"DONGLES": ids[0]}}, nil
				}})
			n.awaitAllocatable(2)
			p := pod("web", 1)
			n.allocate(p)
			n.stop()
			damage(t, n.options.Checkpoint)
			n.start()
			got, err := n.Container(context.Background(), p, &p.Spec.Containers[0])
			if err != nil || got.Env["DONGLES"] != "a" {
				t.Fatalf("after the restart the container gets %+v, %v", got, err)
			}
			n.awaitAllocatable(2)
			n.await("a second registration", func() bool { return plugin.Registered() == 2 })
			other := pod("other", 1)
			n.allocate(other)
			if ids := n.ids(other, "main"); !slices.Equal(ids, []string{"b"}) {
				t.Errorf("another pod gets %v", ids)
			}
		})
	}
}

// A checkpoint that is lost gives no container other devices than it had.
func TestCheckpointLost(t *testing.T) {
	n := newNode(t)
	n.plugin(deviceplugin.Options{Devices: []string{"a"}})
	n.awaitAllocatable(1)
	p := pod("web", 1)
	n.allocate(p)
	n.stop()
	check(t, os.Truncate(n.options.Checkpoint, 3))
	check(t, os.Truncate(n.options.Checkpoint+".backup", 3))
	n.start()
	if _, err := n.Container(context.Background(), p, &p.Spec.Containers[0]); err == nil ||
		!strings.Contains(err.Error(), "podstead restart web") {
		t.Errorf("the container gets devices that are not known: %v", err)
	}
}

// What was allocated and not saved when podstead was killed is free: nothing runs with it.
func TestKilledBeforeTheCheckpoint(t *testing.T) {
	n := newNode(t)
	asked, response := make(chan struct{}), make(chan struct{})
	n.plugin(deviceplugin.Options{Devices: []string{"a"},
		Allocate: func(ctx context.Context, _ []string) (*pluginapi.ContainerAllocateResponse, error) {
			select {
			case asked <- struct{}{}:
				<-response
			default:
			}
			return &pluginapi.ContainerAllocateResponse{}, nil
		}})
	n.awaitAllocatable(1)
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	first := n.Manager
	go func() { failed <- first.Allocate(ctx, pod("killed", 1)) }()
	<-asked
	n.stop()
	cancel()
	if err := <-failed; err == nil {
		t.Fatal("Allocate succeeded without an answer")
	}
	close(response)
	n.start()
	n.awaitAllocatable(1)
	n.allocate(pod("other", 1))
}

// A plugin that hangs delays only the pod that asked it, for a limited time.
func TestPluginHangs(t *testing.T) {
	n := newNode(t)
	n.stop()
	n.options.Timeouts = devices.Timeouts{Allocate: 300 * time.Millisecond}
	n.start()
	n.plugin(deviceplugin.Options{Devices: []string{"a", "b"},
		Allocate: func(ctx context.Context, _ []string) (*pluginapi.ContainerAllocateResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
	n.plugin(deviceplugin.Options{Resource: "example.com/other", Devices: []string{"x"}})
	n.awaitAllocatable(2)
	n.await("the other resource", func() bool {
		_,
			all := n.Resources()
		q := all["example.com/other"]
		return q.Value() == 1
	})
	failed := make(chan error, 1)
	go func() { failed <- n.Allocate(context.Background(), pod("slow", 1)) }()
	other := pod("other", 0)
	q := resource.MustParse("1")
	other.Spec.Containers[0].Resources.Limits = v1.ResourceList{"example.com/other": q}
	n.allocate(other)
	err := <-failed
	if err == nil || !strings.Contains(err.Error(), "did not answer within 300ms") ||
		!strings.Contains(err.Error(), `container "main"`) {
		t.Errorf("Allocate returned %v", err)
	}
	if u := n.Check(pod("next", 2)); u != nil {
		t.Errorf("the devices of the failed allocation are not free: %v", u)
	}
}

// The status shows the health of devices; what is unhealthy is not allocated.
func TestHealth(t *testing.T) {
	n := newNode(t)
	plugin := n.plugin(deviceplugin.Options{Devices: []string{"a", "b"}})
	n.awaitAllocatable(2)
	p := pod("web", 1)
	n.allocate(p)
	health := func() v1.ResourceHealthStatus { return n.Status(p.UID)["main"][0].Resources[0].Health }
	if health() != v1.ResourceHealthStatusHealthy {
		t.Errorf("the device is %s", health())
	}
	n.TakeChanged()
	plugin.SetHealth("a", false)
	n.awaitAllocatable(1)
	if health() != v1.ResourceHealthStatusUnhealthy || !slices.Contains(n.TakeChanged(), p.UID) {
		t.Errorf("the device is %s, and the pod may not be notified", health())
	}
	capacity, _ := n.Resources()
	if q := capacity[dongle]; q.Value() != 2 {
		t.Errorf("the capacity is %s", q.String())
	}
	// Nothing of the pod runs any more: it gets a healthy device.
	n.allocate(p)
	if ids := n.ids(p, "main"); !slices.Equal(ids, []string{"b"}) {
		t.Errorf("the pod has %v", ids)
	}
	wantUnavailable(t, n.Check(pod("next", 1)), 1, 0, "1 unhealthy")
	plugin.Stop()
	n.awaitAllocatable(0)
	if health() != v1.ResourceHealthStatusUnknown {
		t.Errorf("without its plugin the device is %s", health())
	}
	wantUnavailable(t, n.Check(pod("last", 1)), 1, 0, "is not connected")
}

// A device that becomes unhealthy while the plugin is asked for it: the plugin reports no, and the
// pod waits for another device.
func TestUnhealthyDuringStart(t *testing.T) {
	n := newNode(t)
	var plugin *deviceplugin.Plugin
	plugin = n.plugin(deviceplugin.Options{Devices: []string{"a"},
		Allocate: func(context.Context, []string) (*pluginapi.ContainerAllocateResponse, error) {
			plugin.SetHealth("a", false)
			return nil, errors.New("device a does not answer")
		}})
	n.awaitAllocatable(1)
	p := pod("web", 1)
	if err := n.Allocate(context.Background(), p); err == nil ||
		!strings.Contains(err.Error(), "device a does not answer") {
		t.Errorf("Allocate returned %v", err)
	}
	n.awaitAllocatable(0)
	wantUnavailable(t, n.Check(p), 1, 0, "more healthy devices")
}

// The registration socket is created again after it was removed, and plugins register there.
func TestSocketRemoved(t *testing.T) {
	n := newNode(t)
	plugin := n.plugin(deviceplugin.Options{Devices: []string{"a"}})
	n.awaitAllocatable(1)
	check(t, os.Remove(filepath.Join(n.options.Dir, devices.SocketName)))
	n.await("a second registration", func() bool { return plugin.Registered() == 2 })
	n.awaitAllocatable(1)
}

// The socket is created again too if a directory above it was moved away, of which the kernel reports
// nothing.
func TestDirectoryAboveSocketRemoved(t *testing.T) {
	n := newNode(t)
	n.stop()
	above := filepath.Join(filepath.Dir(n.options.Dir), "kubelet")
	n.options.Dir, n.options.SocketCheck = filepath.Join(above, "device-plugins"), 20*time.Millisecond
	n.start()
	check(t, os.Rename(above, above+"-before"))
	n.await("the socket", func() bool {
		_, err := os.Lstat(filepath.Join(n.options.Dir, devices.SocketName))
		return err == nil
	})
	n.plugin(deviceplugin.Options{Devices: []string{"a"}})
	n.awaitAllocatable(1)
}

// When podstead ends it removes its socket, and no other.
func TestSocketAtTheEnd(t *testing.T) {
	n := newNode(t)
	path := filepath.Join(n.options.Dir, devices.SocketName)
	n.stop()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	n.start()
	check(t, os.Remove(path))
	listener, err := net.Listen("unix", path)
	check(t, err)
	defer listener.Close()
	n.stop()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket of another program is gone: %v", err)
	}
}

// The socket of another program is left alone.
func TestSocketInUse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, devices.SocketName)
	listener, err := net.Listen("unix", path)
	check(t, err)
	defer listener.Close()
	_, err = devices.New(devices.Options{Dir: dir}).Open()
	if !errors.Is(err, devices.ErrInUse) || !strings.Contains(err.Error(), path) ||
		!strings.Contains(err.Error(), "--device-plugin-dir") {
		t.Errorf("Open returned %v", err)
	}
	if conn, err := net.Dial("unix", path); err != nil {
		t.Errorf("the socket was touched: %v", err)
	} else {
		conn.Close()
	}
}

// Of two plugins of a resource the newer one is used. When that leaves, the older one is again, with what it lists
// by then; one that is not used leaves without an effect.
func TestTwoPlugins(t *testing.T) {
	n := newNode(t)
	used := func(by *deviceplugin.Plugin) {
		t.Helper()
		before := len(by.Allocated())
		p := pod("web", 1)
		n.allocate(p)
		n.Release(p.UID)
		if len(by.Allocated()) != before+1 {
			t.Error("another plugin was asked")
		}
	}
	first := n.plugin(deviceplugin.Options{Devices: []string{"a", "b", "c"}})
	n.awaitAllocatable(3)
	second := n.plugin(deviceplugin.Options{Devices: []string{"d"}})
	n.awaitAllocatable(1)
	third := n.plugin(deviceplugin.Options{Devices: []string{"e", "f", "g", "h"}})
	n.awaitAllocatable(4)
	used(third)
	second.Stop()
	first.SetHealth("a", false)
	n.awaitAllocatable(4)
	third.Stop()
	n.awaitAllocatable(2)
	used(first)
	first.SetHealth("b", false)
	n.awaitAllocatable(1)
	first.Stop()
	n.awaitAllocatable(0)
}

// A plugin that fails to report its options gets that error when it registers, and is not used.
func TestRegistrationWithoutOptions(t *testing.T) {
	n := newNode(t)
	broken := deviceplugin.Options{Dir: n.options.Dir, Resource: dongle, Devices: []string{"a"},
		OptionsFault: errors.New("no driver loaded")}
	if _, err := deviceplugin.Start(broken); err == nil || !strings.Contains(err.Error(), "no driver loaded") {
		t.Errorf("the registration returned %v", err)
	}
	if capacity, _ := n.Resources(); len(capacity) > 0 {
		t.Errorf("the node has %v", capacity)
	}
	// An earlier plugin of the resource stays in use.
	n.plugin(deviceplugin.Options{Devices: []string{"a", "b"}})
	n.awaitAllocatable(2)
	if _, err := deviceplugin.Start(broken); err == nil {
		t.Error("the plugin was registered")
	}
	n.awaitAllocatable(2)
}

// Registrations with faults are rejected.
func TestRegistrationRejected(t *testing.T) {
	n := newNode(t)
	for _, name := range []string{"dongle", "kubernetes.io/dongle", "requests.example.com/x y"} {
		if _, err := deviceplugin.Start(deviceplugin.Options{Dir: n.options.Dir, Resource: name}); err == nil ||
			!strings.Contains(err.Error(), "is not valid") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The plugin's preference is followed if it can be.
func TestPreferredAllocation(t *testing.T) {
	n := newNode(t)
	n.plugin(deviceplugin.Options{Devices: []string{"a", "b", "c"},
		Preferred: func(available, _ []string, count int) []string {
			return available[len(available)-count:]
		}})
	n.awaitAllocatable(3)
	p := pod("web", 2)
	n.allocate(p)
	if ids := n.ids(p, "main"); !slices.Equal(ids, []string{"b", "c"}) {
		t.Errorf("the pod has %v", ids)
	}
	two := pod("two", 1)
	two.Spec.InitContainers = []v1.Container{container("init", 1)}
	n.allocate(two)
	if ids := n.ids(two, "main"); !slices.Equal(ids, []string{"a"}) || !slices.Equal(n.ids(two, "init"), ids) {
		t.Errorf("the pod has %v and %v", ids, n.ids(two, "init"))
	}
}

// A preference for devices that are not available is not followed.
func TestPreferenceIgnored(t *testing.T) {
	n := newNode(t)
	n.plugin(deviceplugin.Options{Devices: []string{"a", "b"},
		Preferred: func([]string, []string, int) []string { return []string{"z"} }})
	n.awaitAllocatable(2)
	p := pod("web", 2)
	n.allocate(p)
	if ids := n.ids(p, "main"); !slices.Equal(ids, []string{"a", "b"}) {
		t.Errorf("the pod has %v", ids)
	}
}

// PreStartContainer is called before each start, also after a restart of podstead.
func TestPreStart(t *testing.T) {
	n := newNode(t)
	calls := make(chan string, 10)
	plugin := n.plugin(deviceplugin.Options{Devices: []string{"a"}, PreStart: func(ids []string) error {
		calls <- ids[0]
		return nil
	}})
	n.awaitAllocatable(1)
	p := pod("web", 1)
	n.allocate(p)
	start := func() error {
		_, err := n.Container(context.Background(), p, &p.Spec.Containers[0])
		return err
	}
	check(t, start())
	n.restart()
	n.awaitAllocatable(1)
	check(t, start())
	if len(calls) != 2 {
		t.Errorf("PreStartContainer was called %d times", len(calls))
	}
	plugin.Stop()
	n.awaitAllocatable(0)
	if err := start(); err == nil || !strings.Contains(err.Error(), "is not connected") {
		t.Errorf("without the plugin: %v", err)
	}
}

// The pod that waits for longest, or has the highest priority, goes first. One that can have
// nothing blocks no other.
func TestQueue(t *testing.T) {
	n := newNode(t)
	n.plugin(deviceplugin.Options{Devices: []string{"a", "b"}})
	n.awaitAllocatable(2)
	holder := pod("holder", 1)
	n.allocate(holder)
	large, small, impossible, critical := pod("large", 2), pod("small", 1), pod("impossible", 3), pod("critical", 2)
	critical.Spec.Priority = new(int32)
	*critical.Spec.Priority = 1000
	wantUnavailable(t, n.Check(impossible), 3, 1, "more healthy devices")
	wantUnavailable(t, n.Check(large), 2, 1)
	wantUnavailable(t, n.Check(small), 1, 0, "default/large waits for them and goes first")
	wantUnavailable(t, n.Check(critical), 2, 1)
	n.Release(holder.UID)
	wantUnavailable(t, n.Check(large), 2, 0, "default/critical")
	n.Withdraw(critical.UID)
	if u := n.Check(large); u != nil {
		t.Errorf("the first pod waits: %v", u)
	}
	n.allocate(large)
	if u := n.Preview(pod("new", 2), large.UID); u == nil {
		t.Error("a revision goes before a pod that waits for longer")
	}
	n.Withdraw(small.UID)
	if u := n.Preview(pod("new", 2), large.UID); u != nil {
		t.Errorf("the devices of the replaced pod do not count: %v", u)
	}
}

// For a pod of an API server a resource that was never registered is the scheduler's.
func TestAPIPods(t *testing.T) {
	n := newNode(t)
	p := apiPod("web", 1)
	if u := n.Check(p); u != nil {
		t.Errorf("a resource of the scheduler is not available: %v", u)
	}
	n.allocate(p)
	if got, err := n.Container(context.Background(), p, &p.Spec.Containers[0]); err != nil || len(got.Env) > 0 {
		t.Errorf("got %v, %v", got, err)
	}
	n.plugin(deviceplugin.Options{}).Stop()
	n.await("the resource", func() bool { all, _ := n.Resources(); _, ok := all[dongle]; return ok })
	if n.Check(apiPod("next", 1)) == nil {
		t.Error("a resource that was registered is not checked")
	}
}

// What pods had that do not exist any more is free.
func TestRetain(t *testing.T) {
	n := newNode(t)
	n.plugin(deviceplugin.Options{Devices: []string{"a"}})
	n.awaitAllocatable(1)
	n.allocate(pod("gone", 1))
	n.Retain(func(types.UID) bool { return false })
	n.allocate(pod("next", 1))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A plugin that the plugin watcher finds provides its devices until its socket is removed, keeps
// its allocations over restarts, and gets the reason why it cannot be used.
func TestPluginWatcher(t *testing.T) {
	n := newNode(t)
	registry := filepath.Join(filepath.Dir(n.options.Dir), "registry")
	stop := func() {}
	watch := func() {
		w := plugins.New(plugins.Options{Dir: registry,
			Handlers: map[string]plugins.Handler{registerapi.DevicePlugin: n.Manager}})
		check(t, w.Open())
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); _ = w.Run(ctx) }()
		stop = sync.OnceFunc(func() { cancel(); <-done })
	}
	watch()
	t.Cleanup(func() { stop() })
	plugin := n.plugin(deviceplugin.Options{Registry: registry, Devices: []string{"a", "b"}})
	n.awaitAllocatable(2)
	web := pod("web", 1)
	n.allocate(web)
	had := n.ids(web, "main")

	stop()
	n.restart()
	watch()
	n.awaitAllocatable(2)
	n.await("a second registration", func() bool { return plugin.Registered() == 2 })
	if got := n.ids(web, "main"); !slices.Equal(got, had) {
		t.Errorf("after a restart the container has %v, before %v", got, had)
	}

	// A new version of the plugin registers before the socket of the old one is removed.
	n.plugin(deviceplugin.Options{Registry: registry, Devices: []string{"a", "b", "c"}})
	n.awaitAllocatable(3)
	plugin.Stop()
	other := n.plugin(deviceplugin.Options{Registry: registry, Resource: "kubernetes.io/no"})
	n.await("the rejection", func() bool { return strings.Contains(other.Rejected(), "is not valid") })
	n.awaitAllocatable(3)
}

// The devices of a plugin of the plugin watcher are lost with its socket.
func TestPluginWatcherSocketRemoved(t *testing.T) {
	n := newNode(t)
	plugin := n.plugin(deviceplugin.Options{Registry: t.TempDir(), Devices: []string{"a"}})
	endpoint, err := plugin.GetInfo(t.Context(), nil)
	check(t, err)
	deregister, err := n.Register(t.Context(),
		plugins.Plugin{Name: dongle, Endpoint: endpoint.GetEndpoint(), Versions: []string{"v1", "v1beta1"}})
	check(t, err)
	n.awaitAllocatable(1)
	web := pod("web", 1)
	n.allocate(web)
	deregister()
	n.awaitAllocatable(0)
	if got := n.Status(web.UID)["main"][0].Resources[0].Health; got != v1.ResourceHealthStatusUnknown {
		t.Errorf("the device is %s", got)
	}
	if u := n.Check(pod("next", 1)); u == nil || !strings.Contains(u.Error(), "is not connected") {
		t.Errorf("Check returned %v", u)
	}
	if _, err := n.Register(t.Context(),
		plugins.Plugin{Name: dongle, Endpoint: endpoint.GetEndpoint(), Versions: []string{"v9"}}); err == nil ||
		!strings.Contains(err.Error(), `version "v9"`) {
		t.Errorf("Register of another version returned %v", err)
	}
}
