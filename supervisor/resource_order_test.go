package supervisor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/csivolume"
	"github.com/podstead/podstead/internal/device"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/noderesources/claims"
	"github.com/podstead/podstead/supervisor/noderesources/devices"
	"github.com/podstead/podstead/supervisor/podprobes"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// resourceCalls records the calls of the node's resources for one pod, attempt by attempt. It stands for
// all of them: each gives the pod what it asks for unless the call has a fault.
type resourceCalls struct {
	b   *supervisorHarness
	uid types.UID

	mu sync.Mutex
	// fault is what the calls return, by name.
	fault map[string]error
	// attempts are the calls of each sync, after its state; writes are the calls of the runtime until
	// now, and reserved whether the pod held its reservation at the last call.
	attempts []string
	writes   int
	reserved bool
	// loop are the calls of the sync loop.
	loop map[string]bool
}

// call records a call for the pod and returns its fault.
func (r *resourceCalls) call(uid types.UID, name string) error {
	if uid != r.uid {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observe()
	r.add(name)
	return r.fault[name]
}

// observe records what has changed since the last call: in the runtime, and of the reservation.
func (r *resourceCalls) observe() {
	writes := r.b.fake.Writes()
	for _, c := range writes[r.writes:] {
		if strings.HasSuffix(c.Method, "PodSandbox") || c.Method == "CreateContainer" {
			r.add(c.Method)
		}
	}
	r.writes = len(writes)
	if now := r.b.daemon.podSyncer.reservations.Holds(r.uid); now != r.reserved {
		r.reserved = now
		r.add(map[bool]string{true: "(reserved)", false: "(not reserved)"}[now])
	}
}

func (r *resourceCalls) add(name string) {
	if n := len(r.attempts); n > 0 {
		r.attempts[n-1] += " " + name
	}
}

// begin begins the attempt of a sync.
func (r *resourceCalls) begin(job podworkers.SyncJob) {
	pod := job.Pod
	if pod == nil {
		pod = job.Found
	}
	if pod.UID != r.uid {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.attempts); n == 0 || !strings.HasPrefix(r.attempts[n-1], "preview:") {
		r.observe() // what is done for a revision that is in effect is no part of its preview
	}
	r.attempts = append(r.attempts, strings.ToLower(job.State.String())+":")
}

// drain returns the attempts until now, without those that called nothing and without repetitions.
func (r *resourceCalls) drain() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observe()
	var list []string
	for _, a := range r.attempts {
		if strings.HasPrefix(a, "preview:") {
			a = once(a) // it is repeated when something else changes
		}
		if !strings.HasSuffix(a, ":") && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	r.attempts = nil
	return list
}

// once returns the calls without repetitions.
func once(attempt string) string {
	var calls []string
	for call := range strings.FieldsSeq(attempt) {
		if !slices.Contains(calls, call) {
			calls = append(calls, call)
		}
	}
	return strings.Join(calls, " ")
}

func (r *resourceCalls) set(fault map[string]error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = fault
}

func (r *resourceCalls) retain(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loop[name] = true
}

type recordedDevices struct{ *resourceCalls }

func unavailable(err error) *device.Unavailable {
	if err == nil {
		return nil
	}
	return &device.Unavailable{Resource: dongle, Requested: 1, Cause: err.Error(), Remedy: "wait"}
}

func (r recordedDevices) Check(pod *v1.Pod) *device.Unavailable {
	return unavailable(r.call(pod.UID, "devices.Check"))
}
func (r recordedDevices) Preview(pod *v1.Pod, _ types.UID) *device.Unavailable {
	return unavailable(r.call(pod.UID, "devices.Preview"))
}
func (r recordedDevices) Withdraw(uid types.UID) { _ = r.call(uid, "devices.Withdraw") }
func (r recordedDevices) Allocate(_ context.Context, pod *v1.Pod) error {
	err := r.call(pod.UID, "devices.Allocate")
	if errors.Is(err, errPlugin) || err == nil {
		return err
	}
	return unavailable(err)
}
func (r recordedDevices) Release(uid types.UID)                         { _ = r.call(uid, "devices.Release") }
func (r recordedDevices) Retain(func(types.UID) bool)                   { r.retain("devices.Retain") }
func (recordedDevices) Status(types.UID) map[string][]v1.ResourceStatus { return nil }
func (recordedDevices) Changed() <-chan struct{}                        { return nil }
func (recordedDevices) TakeChanged() []types.UID                        { return nil }
func (r recordedDevices) Container(_ context.Context, pod *v1.Pod, _ *v1.Container) (device.Assignment, error) {
	return device.Assignment{}, r.call(pod.UID, "devices.Container")
}

// errPlugin is a fault of a plugin and no shortage.
var errPlugin = errors.New("the plugin failed")

type recordedClaims struct{ *resourceCalls }

func (r recordedClaims) Prepare(_ context.Context, pod *v1.Pod) error {
	return r.call(pod.UID, "claims.Prepare")
}
func (r recordedClaims) Unprepare(_ context.Context, uid types.UID) error {
	return r.call(uid, "claims.Unprepare")
}
func (r recordedClaims) Retain(func(types.UID) bool) { r.retain("claims.Retain") }
func (recordedClaims) Changed() <-chan struct{}      { return nil }
func (recordedClaims) TakeChanged() []types.UID      { return nil }
func (r recordedClaims) CDIDevices(pod *v1.Pod, _ *v1.Container) ([]string, error) {
	return nil, r.call(pod.UID, "claims.CDIDevices")
}

type recordedCgroups struct{ *resourceCalls }

func (r recordedCgroups) Ensure(_ context.Context, pod *v1.Pod, parent string) (string, error) {
	return parent, r.call(pod.UID, "cgroups.Ensure")
}
func (r recordedCgroups) Fits(pod *v1.Pod) error { return r.call(pod.UID, "cgroups.Fits") }
func (r recordedCgroups) Destroy(_ context.Context, uid types.UID, _ string) error {
	return r.call(uid, "cgroups.Destroy")
}
func (recordedCgroups) Pods() []types.UID { return nil }

type recordedAssigned struct {
	*resourceCalls
	leftToKernel
}

func (r recordedAssigned) Assign(pod *v1.Pod) error {
	if err := r.call(pod.UID, "assigned.Assign"); err != nil {
		return cpuShortage{err}
	}
	return nil
}
func (r recordedAssigned) Preview(pod *v1.Pod, _ []types.UID, _ []*v1.Pod) error {
	if err := r.call(pod.UID, "assigned.Preview"); err != nil {
		return cpuShortage{err}
	}
	return nil
}
func (recordedAssigned) Fixed(*v1.Pod, v1.ResourceName) bool { return false }
func (r recordedAssigned) Release(uid types.UID)             { _ = r.call(uid, "assigned.Release") }
func (r recordedAssigned) Retain(func(types.UID) bool)       { r.retain("assigned.Retain") }
func (recordedAssigned) Changed() <-chan struct{}            { return nil }

type recordedCSI struct {
	*resourceCalls
	dir string
}

func (r recordedCSI) Publish(_ context.Context, v *csivolume.Volume) (string, error) {
	return r.dir, r.call(v.Pod, "csi.Publish")
}
func (recordedCSI) Republish(context.Context, *csivolume.Volume) error { return nil }
func (recordedCSI) Expand(context.Context, *csivolume.Volume, int64) (bool, error) {
	return false, nil
}
func (r recordedCSI) Unpublish(_ context.Context, uid types.UID) error {
	return r.call(uid, "csi.Unpublish")
}
func (recordedCSI) Pods() ([]types.UID, error) { return nil, nil }
func (recordedCSI) Labeled(string) bool        { return false }
func (recordedCSI) Changed() <-chan struct{}   { return nil }
func (recordedCSI) TakeChanged() []types.UID   { return nil }

// hostRules is called for the pod, the only one that has host ports.
func (r *resourceCalls) hostRules(context.Context) {
	r.mu.Lock()
	uid := r.uid
	r.mu.Unlock()
	_ = r.call(uid, "hostports.Rules")
}

type recordedProbes struct {
	podprobes.Prober
	calls *resourceCalls
}

func (r recordedProbes) StopLivenessAndStartup(uid types.UID) {
	_ = r.calls.call(uid, "probes.Stop")
	r.Prober.StopLivenessAndStartup(uid)
}

func (r recordedProbes) RemovePod(uid types.UID) {
	_ = r.calls.call(uid, "probes.Remove")
	r.Prober.RemovePod(uid)
}

// record makes the next daemon record the calls for the pod u1.
func (b *supervisorHarness) record() *resourceCalls {
	r := &resourceCalls{b: b, uid: "u1", loop: map[string]bool{}}
	b.devices, b.cgroups, b.exclusive, b.claims = recordedDevices{r}, recordedCgroups{r},
		recordedAssigned{resourceCalls: r},
		recordedClaims{r}
	b.onSync, b.hostRules = r.begin, []func(context.Context){r.hostRules}
	dir := b.t.TempDir()
	b.sources = func(s *Sources) {
		s.CSI, s.Probes = recordedCSI{r, dir}, recordedProbes{s.Probes, r}
	}
	return r
}

// needsAll returns a pod that needs everything that a node has.
func needsAll() *v1.Pod {
	pod := testPod("web", "u1", "r1")
	one, name := resource.MustParse("1"), "gpu"
	c := &pod.Spec.Containers[0]
	c.Resources.Limits = v1.ResourceList{dongle: one, v1.ResourceCPU: one, v1.ResourceMemory: resource.MustParse("64Mi")}
	c.Resources.Requests = c.Resources.Limits
	c.Resources.Claims = []v1.ResourceClaim{{Name: name}}
	c.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
	c.Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	c.LivenessProbe = execProbe(3600, 1, "alive")
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: name, ResourceClaimName: &name}}
	pod.Spec.Volumes = []v1.Volume{
		{Name: "data", VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "example.com"}}}}
	return pod
}

// orderCase is a pod's way through the node's resources, and the calls of each attempt to sync it.
type orderCase struct {
	// fault is that of the start, and reason what the pod waits with.
	fault  map[string]error
	reason string
	// edit changes the pod.
	edit func(*v1.Pod)
	// setup prepares the daemon.
	setup func(b *supervisorHarness)
	// act acts on the pod, after it runs or waits. Only what happens afterwards counts.
	act func(b *supervisorHarness, r *resourceCalls)
}

// preview delivers another revision, and records what is asked before it is in effect.
func preview(b *supervisorHarness, r *resourceCalls, fault map[string]error) {
	r.mu.Lock()
	r.uid, r.attempts = "u2", []string{"preview:"}
	r.mu.Unlock()
	r.set(fault)
	edited := needsAll()
	edited.UID, edited.Annotations[podinfo.AnnotationHash], edited.Annotations[podinfo.AnnotationTemplate] = "u2", "r2",
		"r2"
	b.daemon.config.deliver(file, edited)
	b.after(5 * time.Second)
	r.mu.Lock()
	r.attempts = r.attempts[:1]
	r.mu.Unlock()
}

var errShort = errors.New("not enough")

func fault(call string, err error) map[string]error { return map[string]error{call: err} }

// What a pod needs of its node is asked for and given back in one order, whatever happens.
func TestOrderOfNodeResources(t *testing.T) {
	for name, c := range orderCases {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				r := b.record()
				r.set(c.fault)
				b.allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"),
					v1.ResourceMemory: resource.MustParse("1Gi"), v1.ResourcePods: resource.MustParse("10")}
				if c.setup != nil {
					c.setup(b)
				}
				pod := needsAll()
				if c.edit != nil {
					c.edit(pod)
				}
				d := b.start()
				d.config.deliver(file, pod)
				if c.reason == "" {
					b.runs("u1")
				} else {
					b.until(time.Minute, "it waits with "+c.reason, func() bool { return d.status("u1").Reason == c.reason })
				}
				b.after(10 * time.Second)
				got := r.drain()
				if c.act != nil {
					c.act(b, r)
					got = r.drain()
				}
				if want := orderTable[name]; !slices.Equal(got, want) {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		})
	}
}

// A daemon that starts returns what pods had that have ended meanwhile.
func TestOrderOfRetain(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		r := b.record()
		d := b.start("file", "http")
		d.config.deliver(file)
		b.after(time.Minute)
		loop := func() []string {
			r.mu.Lock()
			defer r.mu.Unlock()
			return slices.Sorted(maps.Keys(r.loop))
		}
		if got := loop(); !slices.Equal(got, []string{"assigned.Retain"}) {
			t.Errorf("before all sources have delivered: %v", got)
		}
		d.config.deliver("http")
		b.after(time.Minute)
		if got := loop(); !slices.Equal(got, []string{"assigned.Retain", "claims.Retain", "devices.Retain"}) {
			t.Errorf("after that: %v", got)
		}
	})
}

var remove = func(b *supervisorHarness, _ *resourceCalls) {
	b.daemon.config.deliver(file)
	b.gone("u1")
}

var orderCases = map[string]orderCase{
	"start":     {},
	"no device": {fault: fault("devices.Check", errShort), reason: "OutOf" + dongle},
	"no capacity": {
		edit:   func(pod *v1.Pod) { pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("3") },
		reason: outOfCPU},
	"no exclusive CPUs":         {fault: fault("assigned.Assign", errShort), reason: noExclusiveCPU},
	"the device is taken":       {fault: fault("devices.Allocate", errShort), reason: "OutOf" + dongle},
	"the device plugin fails":   {fault: fault("devices.Allocate", errPlugin), reason: devices.ReasonUnexpectedAdmission},
	"the claim is not prepared": {fault: fault("claims.Prepare", errShort), reason: claims.ReasonFailedPrepare},
	"no cgroup":                 {fault: fault("cgroups.Ensure", errShort), reason: "FailedCreatePodContainer"},
	"no volume":                 {fault: fault("csi.Publish", errShort), reason: "FailedMount"},
	"removal":                   {act: remove},
	"removal of a pod that waits for a device": {fault: fault("devices.Check", errShort), reason: "OutOf" + dongle,
		act: remove},
	"removal of a pod that waits for a volume": {fault: fault("csi.Publish", errShort), reason: "FailedMount",
		act: func(b *supervisorHarness, r *resourceCalls) {
			r.set(nil)
			remove(b, r)
		}},
	"removal with faults": {act: func(b *supervisorHarness, r *resourceCalls) {
		for _, call := range []string{"claims.Unprepare", "cgroups.Destroy", "csi.Unpublish"} {
			r.set(fault(call, errShort))
			b.daemon.config.deliver(file)
			b.until(time.Minute, call+" is tried again", func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return strings.Count(strings.Join(r.attempts, " "), call) > 1
			})
		}
		r.set(nil)
		b.gone("u1")
	}},
	"deadline": {edit: func(pod *v1.Pod) {
		seconds := int64(60)
		pod.Spec.ActiveDeadlineSeconds = &seconds
	}, act: func(b *supervisorHarness, _ *resourceCalls) { b.after(2 * time.Minute) }},
	"restart of the pod": {act: func(b *supervisorHarness, _ *resourceCalls) {
		if err := b.daemon.Restart("u1", "test", time.Time{}); err != nil {
			b.t.Error(err)
		}
		b.after(time.Minute)
	}},
	"the sandbox dies": {act: func(b *supervisorHarness, _ *resourceCalls) {
		b.fake.KillSandboxes("web")
		b.after(time.Minute)
	}},
	"the container dies": {act: func(b *supervisorHarness, _ *resourceCalls) {
		b.fake.Kill("app")
		b.after(time.Minute)
	}},
	"restart of the daemon": {act: func(b *supervisorHarness, r *resourceCalls) {
		b.kill()
		_ = r.drain()
		d := b.start()
		r.reserved = false
		d.config.deliver(file, needsAll())
		b.after(time.Minute)
	}},
	"preview of a revision": {act: func(b *supervisorHarness, r *resourceCalls) { preview(b, r, nil) }},
	"preview of a revision that is refused": {act: func(b *supervisorHarness, r *resourceCalls) {
		preview(b, r, fault("assigned.Preview", errShort))
		b.only("u1", 1)
	}},
	"a gate is closed": {setup: func(b *supervisorHarness) {
		b.gates = []Gate{func(*v1.Pod) *status.Cause { return &status.Cause{Reason: "Closed", Message: "closed"} }}
	}, reason: "Closed"},
}

// orderTable are the calls of the attempts to sync the pod, by case. It was recorded before the resources of
// the node became one list, and then differed in the following only, because the list has one order, and what
// is given back goes backwards, and host ports, which came in between, are prepared in it: resource claims are prepared
// before the cgroup and the volumes; the processes of a cgroup are killed before the claims are given back and the pod
// counts as stopped, and not after that; devices are released before CPUs; a preview asks for the resources in the
// order of a start.
var orderTable = map[string][]string{
	"deadline": {
		"terminating: devices.Withdraw probes.Stop StopPodSandbox cgroups.Destroy claims.Unprepare",
		"terminated: probes.Remove csi.Unpublish devices.Release assigned.Release (not reserved)",
	},
	"no capacity": {
		"syncing: devices.Check devices.Withdraw",
	},
	"no cgroup": {
		"syncing: devices.Check (reserved) assigned.Assign devices.Allocate claims.Prepare cgroups.Ensure",
		"syncing: devices.Check assigned.Assign devices.Allocate claims.Prepare cgroups.Ensure",
	},
	"no device": {
		"syncing: devices.Check",
	},
	"no exclusive CPUs": {
		"syncing: devices.Check (reserved) assigned.Assign (not reserved) devices.Withdraw",
	},
	"no volume": {
		"syncing: devices.Check (reserved) assigned.Assign devices.Allocate claims.Prepare cgroups.Ensure csi.Publish",
		"syncing: devices.Check assigned.Assign devices.Allocate claims.Prepare cgroups.Ensure csi.Publish",
	},
	"removal": {
		"terminating: devices.Withdraw probes.Stop StopPodSandbox cgroups.Destroy claims.Unprepare",
		"terminated: probes.Remove csi.Unpublish devices.Release assigned.Release (not reserved)",
		"finished: RemovePodSandbox csi.Unpublish",
	},
	"removal of a pod that waits for a device": {
		"terminating: devices.Withdraw probes.Stop cgroups.Destroy claims.Unprepare",
		"terminated: probes.Remove csi.Unpublish devices.Release assigned.Release",
		"finished: csi.Unpublish",
	},
	"removal of a pod that waits for a volume": {
		"terminating: devices.Withdraw probes.Stop cgroups.Destroy claims.Unprepare",
		"terminated: probes.Remove csi.Unpublish devices.Release assigned.Release (not reserved)",
		"finished: csi.Unpublish",
	},
	"removal with faults": {
		"terminating: devices.Withdraw probes.Stop StopPodSandbox cgroups.Destroy claims.Unprepare",
		"terminating: devices.Withdraw probes.Stop cgroups.Destroy claims.Unprepare",
		"terminated: probes.Remove csi.Unpublish",
		"terminated: probes.Remove csi.Unpublish devices.Release assigned.Release (not reserved)",
		"finished: RemovePodSandbox csi.Unpublish",
	},
	"restart of the daemon": {
		"syncing: (reserved) cgroups.Ensure csi.Publish",
		"syncing: cgroups.Ensure csi.Publish",
	},
	"restart of the pod": {
		"terminating: devices.Withdraw probes.Stop StopPodSandbox cgroups.Destroy claims.Unprepare",
		"terminated: probes.Remove csi.Unpublish devices.Release assigned.Release (not reserved)",
		"syncing: devices.Check (reserved) assigned.Assign devices.Allocate claims.Prepare cgroups.Ensure csi.Publish " +
			"hostports.Rules StopPodSandbox RunPodSandbox devices.Container claims.CDIDevices CreateContainer",
		"syncing: cgroups.Ensure csi.Publish",
	},
	"start": {
		"syncing: devices.Check (reserved) assigned.Assign devices.Allocate claims.Prepare cgroups.Ensure csi.Publish " +
			"hostports.Rules RunPodSandbox devices.Container claims.CDIDevices CreateContainer",
		"syncing: cgroups.Ensure csi.Publish",
	},
	"the claim is not prepared": {
		"syncing: devices.Check (reserved) assigned.Assign devices.Allocate claims.Prepare",
		"syncing: devices.Check assigned.Assign devices.Allocate claims.Prepare",
	},
	"the container dies": {
		"syncing: cgroups.Ensure csi.Publish devices.Container claims.CDIDevices CreateContainer",
		"syncing: cgroups.Ensure csi.Publish",
	},
	"the device is taken": {
		"syncing: devices.Check (reserved) assigned.Assign devices.Allocate assigned.Release (not reserved)",
	},
	"the device plugin fails": {
		"syncing: devices.Check (reserved) assigned.Assign devices.Allocate",
		"syncing: devices.Check assigned.Assign devices.Allocate",
	},
	"the sandbox dies": {
		"syncing: devices.Check assigned.Assign devices.Allocate claims.Prepare cgroups.Ensure csi.Publish " +
			"hostports.Rules StopPodSandbox RunPodSandbox devices.Container claims.CDIDevices CreateContainer",
		"syncing: cgroups.Ensure csi.Publish",
	},
	"preview of a revision": {
		"preview: (not reserved) assigned.Preview devices.Preview cgroups.Fits",
	},
	"preview of a revision that is refused": {
		"preview: (not reserved) assigned.Preview",
	},
	"a gate is closed": {
		"syncing: devices.Withdraw",
	},
}
