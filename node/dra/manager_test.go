package dra

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

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	drapbbeta "k8s.io/kubelet/pkg/apis/dra/v1beta1"

	internaldevice "github.com/podstead/podstead/internal/device"
	"github.com/podstead/podstead/node/plugins"
)

const driverName = "gpu.example.com"

// fakeDriver is a DRA driver.
type fakeDriver struct {
	drapb.UnimplementedDRAPluginServer
	socket string
	// kill ends it as a kill does: its socket is left.
	kill func()

	mu sync.Mutex
	// prepared are the UIDs of the prepared claims; calls has each call.
	prepared map[string]bool
	calls    []string
	// fault is the error for a claim, skips leaves it out of the responses, hang holds the calls until it
	// is closed. onPrepare is called in NodePrepareResources.
	fault     string
	skips     bool
	hang      chan struct{}
	onPrepare func()
}

func startDriver(t *testing.T) *fakeDriver {
	t.Helper()
	dir, err := os.MkdirTemp("", "dra") // a short path: it has a socket
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeDriver{socket: filepath.Join(dir, "s"), prepared: map[string]bool{}}
	f.serve(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return f
}

// serve starts the driver, also after kill.
func (f *fakeDriver) serve(t *testing.T) {
	t.Helper()
	_ = os.Remove(f.socket)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: f.socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	server := grpc.NewServer()
	drapb.RegisterDRAPluginServer(server, f)
	drapbbeta.RegisterDRAPluginServer(server, betaDriver{f: f})
	go func() { _ = server.Serve(listener) }()
	f.kill = server.Stop
	t.Cleanup(server.Stop)
}

func (f *fakeDriver) begin(ctx context.Context, call string) error {
	f.mu.Lock()
	f.calls = append(f.calls, call)
	hang := f.hang
	f.mu.Unlock()
	if hang == nil {
		return nil
	}
	select {
	case <-hang:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakeDriver) NodePrepareResources(ctx context.Context,
	req *drapb.NodePrepareResourcesRequest) (*drapb.NodePrepareResourcesResponse, error) {
	if err := f.begin(ctx, "prepare"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.onPrepare != nil {
		f.onPrepare()
	}
	response := &drapb.NodePrepareResourcesResponse{Claims: map[string]*drapb.NodePrepareResourceResponse{}}
	for _, c := range req.Claims {
		if f.skips {
			continue
		}
		r := &drapb.NodePrepareResourceResponse{Error: f.fault}
		if f.fault == "" {
			f.prepared[c.Uid] = true
			for _, request := range []string{"a", "b"} {
				r.Devices = append(r.Devices, &drapb.Device{
					RequestNames: []string{request}, PoolName: "node", DeviceName: "dev-" + request,
					CdiDeviceIds: []string{"example.com/gpu=" + c.Name + "-" + request},
				})
			}
		}
		response.Claims[c.Uid] = r
	}
	return response, nil
}

func (f *fakeDriver) NodeUnprepareResources(ctx context.Context,
	req *drapb.NodeUnprepareResourcesRequest) (*drapb.NodeUnprepareResourcesResponse, error) {
	if err := f.begin(ctx, "unprepare"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	response := &drapb.NodeUnprepareResourcesResponse{Claims: map[string]*drapb.NodeUnprepareResourceResponse{}}
	for _, c := range req.Claims {
		if f.skips {
			continue
		}
		response.Claims[c.Uid] = &drapb.NodeUnprepareResourceResponse{Error: f.fault}
		if f.fault == "" {
			delete(f.prepared, c.Uid)
		}
	}
	return response, nil
}

func (f *fakeDriver) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// drain returns the calls since the last call.
func (f *fakeDriver) drain() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := strings.Join(f.calls, " ")
	f.calls = nil
	return calls
}

func (f *fakeDriver) has(uid string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.prepared[uid]
}

// betaDriver serves v1beta1, whose responses have one device.
type betaDriver struct {
	drapbbeta.UnimplementedDRAPluginServer
	f *fakeDriver
}

func (b betaDriver) NodePrepareResources(ctx context.Context,
	req *drapbbeta.NodePrepareResourcesRequest) (*drapbbeta.NodePrepareResourcesResponse, error) {
	if err := b.f.begin(ctx, "beta"); err != nil {
		return nil, err
	}
	return &drapbbeta.NodePrepareResourcesResponse{Claims: map[string]*drapbbeta.NodePrepareResourceResponse{
		req.Claims[0].Uid: {Devices: []*drapbbeta.Device{
			{PoolName: "node", DeviceName: "dev", CdiDeviceIds: []string{"example.com/gpu=beta"}}}},
	}}, nil
}

// fakeClaims are the claims of the API.
type fakeClaims map[string]*internaldevice.ResourceClaim

func (f fakeClaims) ResourceClaim(_ context.Context, namespace, name string) (*internaldevice.ResourceClaim, error) {
	if c := f[namespace+"/"+name]; c != nil {
		return c, nil
	}
	return nil, errors.New("not found")
}

// allocated returns a claim shop/NAME of the driver that is reserved for pods.
func allocated(name string, pods ...types.UID) *internaldevice.ResourceClaim {
	return &internaldevice.ResourceClaim{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Allocated: true,
		Drivers: []string{driverName}, Pods: pods}
}

// podWith returns a pod whose container main has the request a of a claim, and whose container all has
// all of it.
func podWith(uid types.UID, claim string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(uid), UID: uid}, Spec: v1.PodSpec{
		ResourceClaims: []v1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim}},
		Containers: []v1.Container{
			{Name: "main", Resources: v1.ResourceRequirements{Claims: []v1.ResourceClaim{{Name: "c", Request: "a"}}}},
			{Name: "all", Resources: v1.ResourceRequirements{Claims: []v1.ResourceClaim{{Name: "c"}}}},
			{Name: "none"},
		},
	}}
}

func plugin(f *fakeDriver, versions ...string) plugins.Plugin {
	return plugins.Plugin{Name: driverName, Endpoint: f.socket, Versions: versions}
}

// newManager returns a manager with a checkpoint in dir, with which the driver is registered.
func newManager(t *testing.T, dir string, claims fakeClaims, f *fakeDriver) *Manager {
	t.Helper()
	m := New(Options{Checkpoint: filepath.Join(dir, "claims.json"), Claims: claims, Timeout: 10 * time.Second,
		RetryDelay: 10 * time.Millisecond})
	if f != nil {
		register(t, m, f)
	}
	return m
}

func register(t *testing.T, m *Manager, f *fakeDriver) (deregister func()) {
	t.Helper()
	deregister, err := m.Register(t.Context(), plugin(f, "v1beta1.DRAPlugin", "v1.DRAPlugin"))
	if err != nil {
		t.Fatal(err)
	}
	return deregister
}

func mustPrepare(t *testing.T, m *Manager, pod *v1.Pod) {
	t.Helper()
	if err := m.Prepare(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// mustHave checks the CDI devices of the containers of a pod.
func mustHave(t *testing.T, m *Manager, pod *v1.Pod, claim string) {
	t.Helper()
	for i, want := range [][]string{{claim + "-a"}, {claim + "-a", claim + "-b"}, nil} {
		for j := range want {
			want[j] = "example.com/gpu=" + want[j]
		}
		got, err := m.CDIDevices(pod, &pod.Spec.Containers[i])
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("container %d has %q (%v), want %q", i, got, err, want)
		}
	}
}

// mustFail checks the words of an error.
func mustFail(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v does not have %q", err, word)
		}
	}
}

func TestPrepareAndUnprepare(t *testing.T) {
	f := startDriver(t)
	m := newManager(t, t.TempDir(), fakeClaims{"shop/x": allocated("x", "one", "two")}, f)
	one, two := podWith("one", "x"), podWith("two", "x")
	mustPrepare(t, m, one)
	mustHave(t, m, one, "x")
	if _, err := m.CDIDevices(two, &two.Spec.Containers[0]); err == nil {
		t.Error("a pod for which nothing was prepared gets devices")
	}
	mustPrepare(t, m, two)
	mustUse(t, m, 1)
	mustUse(t, New(m.options), 1) // the next daemon
	mustPrepare(t, m, one)
	if calls := f.drain(); calls != "prepare" {
		t.Errorf("calls: %s", calls)
	}
	if err := m.Unprepare(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if calls := f.drain(); calls != "" {
		t.Errorf("calls for a claim that is in use: %s", calls)
	}
	mustHave(t, m, two, "x")
	for range 2 { // the second time there is nothing to do
		if err := m.Unprepare(t.Context(), "two"); err != nil {
			t.Fatal(err)
		}
	}
	if calls := f.drain(); calls != "unprepare" || f.has("uid-x") {
		t.Errorf("calls: %s", calls)
	}
	mustUse(t, m, 0)
}

// mustUse checks how many claims are in use.
func mustUse(t *testing.T, m *Manager, want int) {
	t.Helper()
	if drivers, all := m.InUse(); all != want || drivers[driverName] != want {
		t.Errorf("in use: %d, %v, want %d", all, drivers, want)
	}
}

// A claim that a pod may not use, or whose driver is missing, leaves nothing to undo.
func TestPrepareRefuses(t *testing.T) {
	f := startDriver(t)
	claims := fakeClaims{"shop/free": allocated("free"), "shop/x": allocated("x", "p"),
		"shop/other": allocated("other", "p"), "shop/pending": {Namespace: "shop", Name: "pending"}}
	claims["shop/other"].Drivers = []string{driverName, "nic.example.com"}
	m := newManager(t, t.TempDir(), claims, f)
	for claim, words := range map[string][]string{
		"gone": {"failed to get ResourceClaim gone", "not found"}, "free": {"free is not reserved for the pod"},
		"pending": {"pending is not allocated"},
		"other":   {"nic.example.com", "is not registered"},
	} {
		mustFail(t, m.Prepare(t.Context(), podWith("p", claim)), words...)
	}
	template := podWith("p", "")
	template.Spec.ResourceClaims[0].ResourceClaimName = nil
	mustFail(t, m.Prepare(t.Context(), template), `"c"`, "was not created yet")
	name := "x"
	template.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: &name}}
	mustFail(t, m.Prepare(t.Context(), template), "was not created for the pod")
	if !slices.Equal(m.TakeChanged(), []types.UID{"p"}) {
		t.Error("the pod does not wait")
	}
	if calls := f.drain(); calls != "" || len(m.claims) > 0 {
		t.Errorf("calls: %s, claims: %v", calls, m.claims)
	}
	claims["shop/x"].Owner = "p"
	mustPrepare(t, m, template)
	mustHave(t, m, template, "x")
	// No claim was necessary for the template.
	template.Status.ResourceClaimStatuses[0].ResourceClaimName = nil
	mustPrepare(t, m, template)
	if _, err := m.Register(t.Context(), plugin(f, "v1alpha4.Node")); err == nil ||
		!strings.Contains(err.Error(), "v1.DRAPlugin") {
		t.Errorf("registration: %v", err)
	}
}

// Errors of the driver are those of the pod, which is tried again.
func TestDriverFaults(t *testing.T) {
	f := startDriver(t)
	m := newManager(t, t.TempDir(), fakeClaims{"shop/x": allocated("x", "p")}, f)
	pod := podWith("p", "x")
	f.set(func() { f.fault = "no power" })
	mustFail(t, m.Prepare(t.Context(), pod), driverName, "ResourceClaim x", "no power")
	f.set(func() { f.fault, f.skips = "", true })
	mustFail(t, m.Prepare(t.Context(), pod), "did not answer for ResourceClaim x")
	mustFail(t, m.Unprepare(t.Context(), "p"), "did not answer for ResourceClaim x")
	f.set(func() { f.skips = false })
	mustPrepare(t, m, pod)
	f.set(func() { f.fault = "busy" })
	mustFail(t, m.Unprepare(t.Context(), "p"), "failed to unprepare ResourceClaim x: busy")
	f.set(func() { f.fault = "" })
	if err := m.Unprepare(t.Context(), "p"); err != nil || f.has("uid-x") {
		t.Errorf("Unprepare: %v", err)
	}
}

// A driver that hangs delays no pod of another driver, and its calls end.
func TestDriverHangs(t *testing.T) {
	f, other := startDriver(t), startDriver(t)
	claims := fakeClaims{"shop/x": allocated("x", "p", "r"), "shop/y": allocated("y", "q")}
	claims["shop/y"].Drivers = []string{"nic.example.com"}
	m := newManager(t, t.TempDir(), claims, f)
	m.options.Timeout = time.Second
	p := plugin(other, "v1.DRAPlugin")
	p.Name = "nic.example.com"
	if _, err := m.Register(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	hang := make(chan struct{})
	f.set(func() { f.hang = hang })
	result := make(chan error, 1)
	go func() { result <- m.Prepare(t.Context(), podWith("p", "x")) }()
	for f.drain() == "" {
		time.Sleep(time.Millisecond)
	}
	mustPrepare(t, m, podWith("q", "y"))
	// Another pod of the claim waits, and goes when it is deleted.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Prepare(ctx, podWith("r", "x")); !errors.Is(err, context.Canceled) {
		t.Errorf("Prepare: %v", err)
	}
	mustFail(t, <-result, "did not answer to NodePrepareResources within 1s")
	close(hang)
	mustPrepare(t, m, podWith("p", "x"))
}

// A pod that is deleted before its claim is its own leaves no claim without a pod.
func TestPrepareCancelled(t *testing.T) {
	f := startDriver(t)
	m := newManager(t, t.TempDir(), fakeClaims{"shop/x": allocated("x", "p")}, f)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // the lock of the claim is free: either may win
		err := m.Prepare(ctx, podWith("p", "x"))
		if err := m.Unprepare(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		m.mu.Lock()
		left := len(m.claims)
		m.mu.Unlock()
		if left > 0 || err == nil {
			t.Fatalf("%d claims are left: %v", left, err)
		}
	}
}

// A pod of a cluster that the node has left ends without the driver, which may never come back, and
// the claim is unprepared if it does.
func TestLeftCluster(t *testing.T) {
	dir, f := t.TempDir(), startDriver(t)
	mustPrepare(t, newManager(t, dir, fakeClaims{"shop/x": allocated("x", "p")}, f), podWith("p", "x"))
	m := newManager(t, dir, nil, nil)
	m.options.Claims = nil
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	if err := m.Unprepare(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	register(t, m, f)
	for f.has("uid-x") {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
}

// copies returns the two files of the checkpoint.
func copies(m *Manager) []string {
	return []string{m.options.Checkpoint, m.options.Checkpoint + ".backup"}
}

// A daemon that is killed after the driver was called, or before it, unprepares the claims of pods that
// are gone.
func TestKilledDaemon(t *testing.T) {
	dir, f := t.TempDir(), startDriver(t)
	claims := fakeClaims{"shop/x": allocated("x", "p"), "shop/y": allocated("y", "q")}
	m := newManager(t, dir, claims, f)
	var saved []byte
	f.set(func() { f.onPrepare = func() { saved, _ = os.ReadFile(filepath.Join(dir, "claims.json")) } })
	mustPrepare(t, m, podWith("p", "x"))
	mustPrepare(t, m, podWith("q", "y"))
	if !strings.Contains(string(saved), "uid-y") {
		t.Fatalf("the claim was not saved before the call: %s", saved)
	}
	// Killed in the call for y: nothing was saved after it.
	for _, file := range copies(m) {
		if err := os.WriteFile(file, saved, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.drain()

	m = newManager(t, dir, claims, nil)
	q := podWith("q", "y")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	mustFail(t, m.Unprepare(t.Context(), "p"), "is not registered")
	m.Retain(func(uid types.UID) bool { return uid == "q" })
	register(t, m, f)
	for f.has("uid-x") {
		time.Sleep(time.Millisecond)
	}
	// The pod that is left is prepared again, without a request to the API server.
	m.options.Claims = fakeClaims{}
	mustPrepare(t, m, q)
	mustHave(t, m, q, "y")
	cancel()
	<-ended
	if calls := f.drain(); calls != "unprepare prepare" {
		t.Errorf("calls: %s", calls)
	}
	// What is saved is what the next daemon knows.
	m = newManager(t, dir, claims, f)
	mustHave(t, m, q, "y")
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.claims) != 1 {
		t.Errorf("claims: %v", m.claims)
	}
}

// One of the two files is enough; if both are damaged, containers do not start without their devices.
func TestDamagedCheckpoint(t *testing.T) {
	dir, f := t.TempDir(), startDriver(t)
	claims := fakeClaims{"shop/x": allocated("x", "p")}
	m := newManager(t, dir, claims, f)
	pod := podWith("p", "x")
	mustPrepare(t, m, pod)
	truncate := func(file string) {
		t.Helper()
		if err := os.Truncate(file, 20); err != nil {
			t.Fatal(err)
		}
	}
	truncate(copies(m)[0])
	mustHave(t, newManager(t, dir, claims, f), pod, "x")
	truncate(copies(m)[1])
	m = newManager(t, dir, claims, f)
	_, err := m.CDIDevices(pod, &pod.Spec.Containers[0])
	mustFail(t, err, "ResourceClaim shop/x is not prepared", "delete the pod")
	mustPrepare(t, m, pod)
	mustHave(t, m, pod, "x")
}

// A checkpoint that cannot be written keeps the driver from being called.
func TestCheckpointNotWritten(t *testing.T) {
	f := startDriver(t)
	m := newManager(t, filepath.Join(t.TempDir(), "missing"), fakeClaims{"shop/x": allocated("x", "p")}, f)
	mustFail(t, m.Prepare(t.Context(), podWith("p", "x")), "checkpoint")
	if calls := f.drain(); calls != "" {
		t.Errorf("calls: %s", calls)
	}
}

// A claim that was created again under its name waits for the end of the pod with the former one.
func TestClaimOfSameName(t *testing.T) {
	f := startDriver(t)
	claims := fakeClaims{"shop/x": allocated("x", "old")}
	m := newManager(t, t.TempDir(), claims, f)
	mustPrepare(t, m, podWith("old", "x"))
	claims["shop/x"] = allocated("x", "new")
	claims["shop/x"].UID = "uid-other"
	mustFail(t, m.Prepare(t.Context(), podWith("new", "x")), "still prepared")
	for len(m.changed.C()) > 0 {
		<-m.changed.C()
	}
	if err := m.Unprepare(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	<-m.Changed()
	mustPrepare(t, m, podWith("new", "x"))
	if f.has("uid-x") || !f.has("uid-other") {
		t.Errorf("prepared: %v", f.prepared)
	}
}

// A driver that serves v1beta1 only is called with that, and the newest registration counts.
func TestDriverVersions(t *testing.T) {
	f, newer := startDriver(t), startDriver(t)
	m := newManager(t, t.TempDir(), fakeClaims{"shop/x": allocated("x", "p"), "shop/y": allocated("y", "q")}, nil)
	deregister, err := m.Register(t.Context(), plugin(f, "v1beta1.DRAPlugin"))
	if err != nil {
		t.Fatal(err)
	}
	pod := podWith("p", "x")
	mustPrepare(t, m, pod)
	if got, err := m.CDIDevices(pod, &pod.Spec.Containers[0]); err != nil ||
		!slices.Equal(got, []string{"example.com/gpu=beta"}) || f.drain() != "beta" {
		t.Errorf("devices: %q, %v", got, err)
	}
	register(t, m, newer)
	deregister()
	mustPrepare(t, m, podWith("q", "y"))
	if calls := newer.drain(); calls != "prepare" || f.drain() != "" {
		t.Errorf("calls: %s", calls)
	}
}

// Extended resources that the scheduler has taken from a claim are devices of that claim.
func TestExtendedResources(t *testing.T) {
	f := startDriver(t)
	m := newManager(t, t.TempDir(), fakeClaims{"shop/x": allocated("x", "p")}, f)
	one := v1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", UID: "p"},
		Spec: v1.PodSpec{Containers: []v1.Container{
			{Name: "main", Resources: v1.ResourceRequirements{Requests: one}}, {Name: "none"},
		}}, Status: v1.PodStatus{ExtendedResourceClaimStatus: &v1.PodExtendedResourceClaimStatus{
			ResourceClaimName: "x",
			RequestMappings: []v1.ContainerExtendedResourceRequest{
				{ContainerName: "main", ResourceName: "example.com/gpu", RequestName: "b"}},
		}}}
	mustPrepare(t, m, pod)
	for i, want := range [][]string{{"example.com/gpu=x-b"}, nil} {
		if got, err := m.CDIDevices(pod, &pod.Spec.Containers[i]); err != nil || !slices.Equal(got, want) {
			t.Errorf("container %d has %q (%v), want %q", i, got, err, want)
		}
	}
}
