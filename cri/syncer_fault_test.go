package cri_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

// faults are the failures that any call can have.
var faults = map[string]critest.Fault{
	"error before":                {Before: errors.New("injected")},
	"three errors before":         {Before: critest.Err(codes.Internal, "injected"), Times: 3},
	"unavailable before":          {Before: critest.Err(codes.Unavailable, "injected")},
	"error after effect":          {After: errors.New("injected")},
	"unavailable after effect":    {After: critest.Err(codes.Unavailable, "injected")},
	"three errors after effect":   {After: errors.New("injected"), Times: 3},
	"hang before":                 {Hang: true},
	"hang after effect":           {HangAfter: true},
	"disconnect before":           {Disconnect: true},
	"disconnect after effect":     {DisconnectAfter: true},
	"second call, error after":    {Skip: 1, After: errors.New("injected")},
	"second call, hang after":     {Skip: 1, HangAfter: true},
	"second call, error before":   {Skip: 1, Before: errors.New("injected")},
	"third call, disconnect late": {Skip: 2, DisconnectAfter: true},
}

// Calls that observe, and further ones that the steps of a sync make.
var (
	looks        = []string{"ListPodSandbox", "ListContainers", "PodSandboxStatus", "ContainerStatus"}
	starts       = []string{"ImageStatus", "CreateContainer", "StartContainer"}
	terminations = []string{"StopContainer", "StopPodSandbox"}
)

// eachFault runs a scenario once for each call and fault. With restarts, the
// daemon keeps no state from one sync to the next.
func eachFault(t *testing.T, p *v1.Pod, methods []string,
	scenario func(t *testing.T, b *syncerHarness, inject func())) {
	for _, method := range methods {
		for name, fault := range faults {
			for _, restarts := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/restarts=%t", method, name, restarts), func(t *testing.T) {
					t.Parallel()
					withTestbed(t, p.DeepCopy(), func(t *testing.T, b *syncerHarness) {
						b.forgetful = restarts
						var injected *critest.Injected
						scenario(t, b, func() {
							injected = b.fake.Inject(method, fault)
							// Longer than any deadline of the client; a pull has
							// none.
							time.AfterFunc(10*time.Minute, injected.Release)
						})
						if injected.Hits() == 0 && fault.Skip == 0 {
							t.Errorf("%s was never called: the fault has no effect", method)
						}
					})
				})
			}
		}
	}
}

func TestFaultsAtStart(t *testing.T) {
	eachFault(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}, "i"),
		slices.Concat(looks, starts, []string{"RunPodSandbox", "PullImage"}),
		func(t *testing.T, b *syncerHarness, inject func()) {
			b.fake.SetImages()
			inject()
			b.settle()
			b.runs("i")
			b.fake.Exit("i", 0)
			b.settle()
			b.runs("a", "b")
			b.fresh("i", "a", "b")
			if n := len(b.fake.Sandboxes()); n != 1 {
				t.Errorf("%d sandboxes were made\n%s", n, b.fake.Dump())
			}
		})
}

func TestFaultsAtRestart(t *testing.T) {
	eachFault(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), slices.Concat(looks, starts),
		func(t *testing.T, b *syncerHarness, inject func()) {
			b.settle()
			b.fake.Kill("a")
			inject()
			b.settle()
			b.runs("a", "b")
			b.fresh("b")
			if n := b.fake.Starts("uid-1", "a"); n != 2 {
				t.Errorf("a was started %d times, want twice", n)
			}
		})
}

func TestFaultsAtSandboxChange(t *testing.T) {
	eachFault(t, pod(v1.RestartPolicyAlways, []string{"a"}, "i"),
		slices.Concat(looks, starts, terminations, []string{"RunPodSandbox", "RemoveContainer"}),
		func(t *testing.T, b *syncerHarness, inject func()) {
			b.settle()
			b.fake.Exit("i", 0)
			b.settle()
			b.fake.KillSandboxes("web-node")
			inject()
			b.settle()
			b.runs("i")
			b.fake.Exit("i", 0)
			b.settle()
			b.runs("a")
			if n := b.fake.Starts("uid-1", "a"); n != 2 {
				t.Errorf("a was started %d times, want twice", n)
			}
		})
}

func TestFaultsAtChange(t *testing.T) {
	eachFault(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), slices.Concat(looks, starts, []string{"StopContainer"}),
		func(t *testing.T, b *syncerHarness, inject func()) {
			b.settle()
			b.pod.Spec.Containers[0].Image = "registry.example/a:2"
			inject()
			b.settle()
			b.runs("a", "b")
			b.fresh("b")
			if a, _ := b.fake.Newest("a"); !a.Running() || a.Config.Image.UserSpecifiedImage != "registry.example/a:2" {
				t.Errorf("got %+v", a)
			}
		})
}

func TestFaultsAtKill(t *testing.T) {
	eachFault(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), slices.Concat(looks, terminations),
		func(t *testing.T, b *syncerHarness, inject func()) {
			b.settle()
			b.fake.Behave("a", critest.Behaviour{IgnoreTerm: true})
			inject()
			for range 20 {
				if err := b.kill(3); err == nil {
					break
				}
				time.Sleep(time.Second)
			}
			if b.fake.Running() != 0 || b.fake.Ready() != 0 {
				t.Errorf("something still runs\n%s", b.fake.Dump())
			}
		})
}

// Lists that do not show new objects must not lead to a second instance.
func TestStaleListAfterStart(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), func(t *testing.T, b *syncerHarness) {
		b.fake.StaleLists(-1)
		if r := b.sync(); r.Err == nil && len(b.fake.Sandboxes()) != 1 {
			t.Fatalf("got %+v", r)
		}
		b.sync()
		b.fake.FreshLists()
		b.settle()
		b.runs("a", "b")
		b.fresh("a", "b")
	})
}

func TestStaleListsOnce(t *testing.T) {
	for n := 1; n <= 2; n++ {
		withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), func(t *testing.T, b *syncerHarness) {
			b.sync()
			b.fake.Kill("a")
			b.fake.StaleLists(n) // a has exited
			b.sync()
			b.sync()
			b.settle()
			b.runs("a", "b")
			b.fresh("b")
		})
	}
}

// A restarted daemon that has no state and is shown an empty list finds the
// sandbox of a lost response by its name.
func TestSandboxIsFoundByItsName(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.fake.Inject("RunPodSandbox", critest.Fault{After: errors.New("lost")})
		b.sync()
		b.restart()
		r := b.syncer.Sync(t.Context(),
			cri.SyncRequest{Pod: b.pod, Status: &cri.PodStatus{UID: b.pod.UID}, ResolveInputs: b.inputs})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		b.runs("a")
		b.fresh("a")
		if a, _ := b.fake.Newest("a"); string(a.Config.Envs[0].Value) == "" {
			t.Error("the container did not get the pod's address")
		}
		// A sandbox with containers that the status did not show is not
		// used.
		b.restart()
		r = b.syncer.Sync(t.Context(),
			cri.SyncRequest{Pod: b.pod, Status: &cri.PodStatus{UID: b.pod.UID}, ResolveInputs: b.inputs})
		if !errors.Is(r.Err, cri.ErrExists) {
			t.Errorf("got %+v", r)
		}
		// Nor is one when the lookup fails.
		b.restart()
		b.fake.Inject("ListContainers", critest.Fault{Before: errors.New("broken")})
		r = b.syncer.Sync(t.Context(),
			cri.SyncRequest{Pod: b.pod, Status: &cri.PodStatus{UID: b.pod.UID}, ResolveInputs: b.inputs})
		if r.Err == nil {
			t.Errorf("got %+v", r)
		}
		// Nor is one of another attempt.
		b.fake.KillSandboxes("web-node")
		status := b.observe()
		b.settle()
		b.restart()
		r = b.syncer.Sync(t.Context(), cri.SyncRequest{Pod: b.pod, Status: status, ResolveInputs: b.inputs})
		if !errors.Is(r.Err, cri.ErrExists) {
			t.Errorf("got %+v", r)
		}
		b.settle()
		b.runs("a")
	})
}

// A container that was created but cannot be started is created again.
func TestCreatedContainerFailsToStart(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.fake.Inject("StartContainer", critest.Fault{Before: errors.New("refused"), Times: 2})
		b.sync()
		first, _ := b.fake.Newest("a")
		b.sync()
		b.settle()
		b.runs("a")
		if a, _ := b.fake.Newest("a"); a.ID == first.ID || a.Config.Metadata.Attempt != 0 {
			t.Errorf("got %+v, want another one with number 0", a)
		}
	})
}

// A container whose start has an unknown result is neither removed nor created
// again.
func TestCreatedWithALostStart(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.fake.Inject("StartContainer", critest.Fault{Before: critest.Err(codes.Unavailable, "lost"), Times: 3})
		b.sync()
		first, _ := b.fake.Newest("a")
		b.settle()
		b.runs("a")
		if a, _ := b.fake.Newest("a"); a.ID != first.ID || b.fake.Calls("CreateContainer") != 1 {
			t.Errorf("%d were created, want the first one to be started", b.fake.Calls("CreateContainer"))
		}
	})
}

// A container that was created from an outdated definition never ran: its
// replacement gets the same attempt number.
func TestCreatedFromAnotherDefinition(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.fake.Inject("StartContainer", critest.Fault{Before: errors.New("refused")})
		b.sync()
		b.pod.Spec.Containers[0].Image = "registry.example/a:2"
		b.fake.Inject("RemoveContainer", critest.Fault{Before: errors.New("busy")})
		if r := b.sync(); r.Err == nil || b.fake.Calls("CreateContainer") != 1 {
			t.Errorf("got %+v, and a second one next to the one that could not be removed", r)
		}
		b.settle()
		b.runs("a")
		if a, _ := b.fake.Newest("a"); a.Config.Metadata.Attempt != 0 || len(b.fake.Containers()) != 1 {
			t.Errorf("got %+v", b.fake.Dump())
		}
	})
}

// A dead sandbox still holds its address and host ports until it is stopped.
func TestDeadSandboxIsStopped(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.fake.KillSandboxes("web-node")
		b.fake.Kill("a")
		dead := b.fake.Sandboxes()[0].ID
		b.settle()
		b.runs("a")
		for _, call := range b.fake.Writes() {
			if call.Method == "StopPodSandbox" && call.ID == dead {
				return
			}
		}
		t.Error("the dead sandbox was not stopped")
	})
}

// The status is older than the last action, as a cache might return it.
func TestOldStatus(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}, "i"), func(t *testing.T, b *syncerHarness) {
		var old []*cri.PodStatus
		step := func() {
			b.sync()
			old = append(old, b.status)
			for _, s := range old {
				b.syncer.Sync(t.Context(), cri.SyncRequest{Pod: b.pod, Status: s, ResolveInputs: b.inputs})
			}
		}
		step()
		b.fake.Exit("i", 0)
		step()
		step()
		b.settle()
		b.runs("a", "b")
		b.fresh("i", "a", "b")
	})
}

// The response to a create is lost, and the create takes effect only after the
// next status.
func TestLateEffects(t *testing.T) {
	for _, method := range []string{"RunPodSandbox", "CreateContainer", "StartContainer"} {
		t.Run(method, func(t *testing.T) {
			withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
				late := b.fake.Inject(method, critest.Fault{Late: true})
				b.sync() // times out
				go func() {
					time.Sleep(5 * time.Second)
					late.Release()
				}()
				b.settle()
				time.Sleep(10 * time.Second)
				b.settle()
				b.runs("a")
				b.fresh("a")
			})
		})
	}
}

func TestSandboxNameTakenByOneThatIsNotReady(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.fake.Inject("RunPodSandbox", critest.Fault{Before: critest.Err(codes.Unknown,
			`failed to reserve sandbox name "x": name "x" is reserved for "y"`)})
		r := b.sync()
		if !errors.Is(r.Err, cri.ErrExists) || r.Waiting[""].Reason != "CreatePodSandboxError" {
			t.Errorf("got %+v", r)
		}
		b.settle()
		b.runs("a")
	})
}

func TestRuntimeDown(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.fake.Down()
		b.fake.Kill("a")
		for range 3 {
			if r := b.sync(); r.Err == nil {
				t.Errorf("got %+v from a runtime that is down", r)
			}
		}
		b.fake.Up()
		b.settle()
		b.runs("a")
	})
}
