package devices_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podstead/podstead/internal/device"
	"github.com/podstead/podstead/node/devices"
	"github.com/podstead/podstead/test/testbed/deviceplugin"
)

// newLocalNode returns a node with local devices at a pattern in a directory of its own, which stands
// for /dev: links in it are devices that come and go.
func newLocalNode(t *testing.T, pattern string, podsPerDevice int, present ...string) (n *node, dir string) {
	t.Helper()
	n = newNode(t)
	n.stop()
	dir = t.TempDir()
	for i, name := range present {
		plugIn(t, dir, name, []string{"/dev/null", "/dev/zero", "/dev/full"}[i])
	}
	n.options.Local = map[v1.ResourceName]devices.Local{
		dongle: {Paths: []string{filepath.Join(dir, pattern)}, Permissions: "rw", PodsPerDevice: podsPerDevice}}
	n.start()
	return n, dir
}

func plugIn(t *testing.T, dir, name, target string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
	check(t, os.Symlink(target, filepath.Join(dir, name)))
}

func (n *node) health(pod *v1.Pod) v1.ResourceHealthStatus {
	for _, r := range n.Status(pod.UID)["main"] {
		return r.Resources[0].Health
	}
	return ""
}

func (n *node) capacity() int64 {
	capacity, _ := n.Resources()
	q := capacity[dongle]
	return q.Value()
}

// A device is available as soon as it is plugged in, in a directory that appears with it too. Its
// containers keep it when it is unplugged, and have it again when it is back, with its new number.
func TestHotPlug(t *testing.T) {
	for _, pattern := range []string{"tty*", "serial/by-id/usb-*"} {
		t.Run(pattern, func(t *testing.T) {
			n, dir := newLocalNode(t, pattern, 1)
			web := pod("web", 1)
			wantUnavailable(t, n.Check(web), 1, 0, "0 healthy",
				"starts when there are more devices at "+filepath.Join(dir, pattern))
			name := strings.ReplaceAll(pattern, "*", "0")
			// It must be found after Run watches, and before.
			plugIn(t, dir, name, "/dev/null")
			n.awaitAllocatable(1)
			if !slices.Contains(n.TakeChanged(), web.UID) {
				t.Error("the pod that waits is not notified")
			}
			n.allocate(web)
			path := filepath.Join(dir, name)
			container := &web.Spec.Containers[0]
			got, err := n.Container(context.Background(), web, container)
			check(t, err)
			if want := (device.Node{HostPath: "/dev/null", ContainerPath: path, Permissions: "rw"}); len(got.Nodes) != 1 ||
				got.Nodes[0] != want || got.Env["EXAMPLE_COM_DONGLE"] != path {
				t.Errorf("the container gets %+v", got)
			}
			if h := n.health(web); h != v1.ResourceHealthStatusHealthy || n.capacity() != 1 {
				t.Errorf("health %s, capacity %d", h, n.capacity())
			}
			n.TakeChanged()

			check(t, os.RemoveAll(filepath.Join(dir, strings.Split(name, "/")[0])))
			n.awaitAllocatable(0)
			if h := n.health(web); h != v1.ResourceHealthStatusUnhealthy || !slices.Contains(n.TakeChanged(), web.UID) {
				t.Errorf("health %s after it was removed, or the pod is not notified", h)
			}
			if _, err := n.Container(context.Background(), web, container); err == nil ||
				!strings.Contains(err.Error(), path+" is not there") {
				t.Errorf("without the device: %v", err)
			}

			plugIn(t, dir, name, "/dev/zero")
			n.awaitAllocatable(1)
			if got, err := n.Container(context.Background(), web, container); err != nil ||
				got.Nodes[0].HostPath != "/dev/zero" {
				t.Errorf("after it is back: %+v, %v", got, err)
			}
			wantUnavailable(t, n.Check(pod("other", 1)), 1, 0, "1 of the healthy in use")
		})
	}
}

// Entries that are no devices do not count, and a device at two paths counts once, at the one where
// it was first.
func TestSameDeviceTwice(t *testing.T) {
	n, dir := newLocalNode(t, "tty[0-9]", 1, "tty5")
	check(t, os.WriteFile(filepath.Join(dir, "tty7"), nil, 0o600))
	plugIn(t, dir, "tty1", "/dev/null") // the one of tty5
	plugIn(t, dir, "tty2", "/nowhere")
	plugIn(t, dir, "tty8", "/dev/zero")
	n.awaitAllocatable(2)
	p := pod("web", 2)
	n.allocate(p)
	if ids, want := n.ids(p, "main"),
		[]string{filepath.Join(dir, "tty5"), filepath.Join(dir, "tty8")}; !slices.Equal(ids, want) {
		t.Errorf("the pod has %v, want %v", ids, want)
	}
	// The same after a restart, in which tty1 is found first.
	n.restart()
	if h := n.health(p); h != v1.ResourceHealthStatusHealthy {
		t.Errorf("health %s after a restart", h)
	}
}

// Several pods have one device, and a pod gets different devices.
func TestSharedDevice(t *testing.T) {
	n, dir := newLocalNode(t, "video*", 2, "video0")
	if n.capacity() != 2 {
		t.Errorf("capacity %d", n.capacity())
	}
	both, one, two, three := pod("both", 2), pod("one", 1), pod("two", 1), pod("three", 1)
	wantUnavailable(t, n.Check(both), 2, 1, "there are more devices at")
	n.allocate(one)
	n.allocate(two)
	for _, p := range []*v1.Pod{one, two} {
		got, err := n.Container(context.Background(), p, &p.Spec.Containers[0])
		if err != nil || got.Nodes[0].ContainerPath != filepath.Join(dir, "video0") {
			t.Errorf("%s gets %+v, %v", p.Name, got, err)
		}
	}
	wantUnavailable(t, n.Check(three), 1, 0, "2 of the healthy in use")
	n.Withdraw(three.UID)
	plugIn(t, dir, "video1", "/dev/zero")
	n.awaitAllocatable(4)
	n.Release(two.UID)
	n.allocate(both)
	got, err := n.Container(context.Background(), both, &both.Spec.Containers[0])
	if err != nil || len(got.Nodes) != 2 || got.Nodes[0].HostPath == got.Nodes[1].HostPath {
		t.Errorf("both devices: %+v, %v", got, err)
	}

	// With fewer pods per device those that have it keep it, and no other pod gets it.
	local := n.options.Local[dongle]
	local.PodsPerDevice = 1
	n.options.Local = map[v1.ResourceName]devices.Local{dongle: local}
	n.Release(one.UID)
	n.restart()
	if h := n.health(both); h == "" {
		t.Error("the pod has lost its devices")
	}
	wantUnavailable(t, n.Check(three), 1, 0)
}

// Allocations survive a restart, and the end of the configuration; a plugin does not take over
// the resource.
func TestLocalRestart(t *testing.T) {
	n, _ := newLocalNode(t, "tty*", 1, "tty0", "tty1")
	web := pod("web", 1)
	n.allocate(web)
	before, err := n.Container(context.Background(), web, &web.Spec.Containers[0])
	check(t, err)
	n.restart()
	if capacity, allocatable := n.Resources(); len(capacity) != 1 || !maps.Equal(capacity, allocatable) {
		t.Errorf("right after the start: %v of %v", allocatable, capacity)
	}
	other := pod("other", 1)
	n.allocate(other)
	if slices.Equal(n.ids(other, "main"), n.ids(web, "main")) {
		t.Error("a device is given twice")
	}
	if _, err := deviceplugin.Start(deviceplugin.Options{Dir: n.options.Dir, Resource: dongle}); err == nil ||
		!strings.Contains(err.Error(), "localDevices") {
		t.Errorf("a plugin of the resource: %v", err)
	}

	n.stop()
	n.options.Local = nil
	n.start()
	after, err := n.Container(context.Background(), web, &web.Spec.Containers[0])
	if err != nil || after.Nodes[0] != before.Nodes[0] {
		t.Errorf("without the configuration: %+v, %v", after, err)
	}
	wantUnavailable(t, n.Check(pod("new", 1)), 1, 0, "no device plugin has registered")
}

// A resource of a plugin becomes one of local devices: what has it keeps what the plugin responded.
func TestLocalInsteadOfPlugin(t *testing.T) {
	n := newNode(t)
	n.plugin(deviceplugin.Options{Devices: []string{"a"},
		Allocate: func(context.Context, []string) (*pluginapi.ContainerAllocateResponse, error) {
			return &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"DONGLES": "a"}}, nil
		}})
	n.awaitAllocatable(1)
	web := pod("web", 1)
	n.allocate(web)
	n.stop()
	n.options.Local = map[v1.ResourceName]devices.Local{
		dongle: {CDI: []string{"vendor.example/camera=front"}, PodsPerDevice: 1}}
	n.start()
	got, err := n.Container(context.Background(), web, &web.Spec.Containers[0])
	if err != nil || got.Env["DONGLES"] != "a" || len(got.CDI) > 0 {
		t.Errorf("after the change: %+v, %v", got, err)
	}
	n.allocate(web) // the pod starts again
	if got, err := n.Container(context.Background(), web, &web.Spec.Containers[0]); err != nil ||
		!slices.Equal(got.CDI, []string{"vendor.example/camera=front"}) || len(got.Env) > 0 {
		t.Errorf("after the pod was restarted: %+v, %v", got, err)
	}
}

// A pod that waits for a shared device keeps others only from the places that it needs.
func TestWaitingForASharedDevice(t *testing.T) {
	n, dir := newLocalNode(t, "video*", 2, "video0")
	first, second, both := pod("first", 1), pod("second", 1), pod("both", 2)
	n.allocate(first)
	n.allocate(second)
	plugIn(t, dir, "video1", "/dev/zero")
	n.awaitAllocatable(4)
	wantUnavailable(t, n.Check(both), 2, 1)

	// video1 has two places, of which the waiting pod needs one.
	small := pod("small", 1)
	if u := n.Check(small); u != nil {
		t.Fatalf("a pod that takes nothing from the one that waits: %v", u)
	}
	n.allocate(small)
	if got := n.ids(small, "main"); len(got) != 1 || !strings.HasPrefix(got[0], filepath.Join(dir, "video1")) {
		t.Errorf("it has %v", got)
	}
	wantUnavailable(t, n.Check(pod("next", 1)), 1, 0, "the pod default/both waits for them and goes first")
	n.Release(first.UID)
	if u := n.Check(both); u != nil {
		t.Errorf("the pod that waits: %v", u)
	}
	n.allocate(both)
}
