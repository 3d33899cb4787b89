package cri

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wantedPod is a pod with the named regular and init containers.
func wantedPod(policy v1.RestartPolicy, regular []string, init ...string) *v1.Pod {
	grace := int64(30)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-node", Namespace: "default", UID: "uid-1"}}
	pod.Spec.RestartPolicy = policy
	pod.Spec.TerminationGracePeriodSeconds = &grace
	container := func(name string) v1.Container {
		return v1.Container{
			Name: name, Image: "registry.example/" + name + ":1", ImagePullPolicy: v1.PullIfNotPresent,
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile,
		}
	}
	for _, name := range regular {
		pod.Spec.Containers = append(pod.Spec.Containers, container(name))
	}
	for _, name := range init {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container(name))
	}
	return pod
}

// look is an observed pod in the making. Attempts and restart counts follow
// from the order in which things are added, oldest first.
type look struct{ status PodStatus }

func (l *look) sandbox(id string, ready bool) *look {
	s := Sandbox{ID: id, Ready: ready, Attempt: uint32(len(l.status.Sandboxes))}
	if ready {
		s.IPs = []string{"10.0.0.1"}
	}
	l.status.Sandboxes = append([]Sandbox{s}, l.status.Sandboxes...)
	return l
}

// in adds an instance to the newest sandbox.
func (l *look) in(id, name string, state State, more ...func(*Container)) *look {
	c := Container{ID: id, Name: name, State: state, SandboxID: l.status.Sandboxes[0].ID}
	for _, other := range l.status.Containers {
		if other.Name == name {
			c.RestartCount++
		}
	}
	pod := wantedPod("", []string{name})
	c.Hash = Hash(&pod.Spec.Containers[0])
	for _, f := range more {
		f(&c)
	}
	l.status.Containers = append([]Container{c}, l.status.Containers...)
	return l
}

func exit(code int32) func(*Container) { return func(c *Container) { c.ExitCode = code } }
func oomKilled(c *Container)           { c.Reason = reasonOOMKilled }
func otherHash(c *Container)           { c.Hash = "0" }
func noHash(c *Container)              { c.Hash = "" }

func TestPlan(t *testing.T) {
	always, onFailure, never := v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever
	one, two := []string{"a"}, []string{"a", "b"}
	killed := func(id, name string, reason KillReason) Kill { return Kill{ID: id, Name: name, Reason: reason} }
	probeSeconds := int64(7)

	cases := []struct {
		name   string
		pod    *v1.Pod
		look   *look
		failed map[string]KillReason
		want   Actions
	}{
		// The sandbox.
		{
			name: "nothing there: a sandbox and all containers in order",
			pod:  wantedPod(always, two), look: &look{},
			want: Actions{CreateSandbox: true, Start: []int{0, 1}},
		}, {
			name: "nothing there, with init: only the first init container",
			pod:  wantedPod(always, two, "i", "j"), look: &look{},
			want: Actions{CreateSandbox: true, StartInit: []int{0}},
		}, {
			name: "nothing there, policy Never: it runs once",
			pod:  wantedPod(never, one), look: &look{},
			want: Actions{CreateSandbox: true, Start: []int{0}},
		}, {
			name: "a ready sandbox without containers, as after a lost answer, is used",
			pod:  wantedPod(always, two), look: (&look{}).sandbox("s", true),
			want: Actions{SandboxID: "s", Start: []int{0, 1}},
		}, {
			name: "the sandbox died: the pod is ended and starts over",
			pod:  wantedPod(always, one), look: (&look{}).sandbox("s", false).in("c", "a", StateRunning),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: []int{0}},
		}, {
			name: "two ready sandboxes: both go",
			pod:  wantedPod(always, one), look: (&look{}).sandbox("s", true).sandbox("t", true).in("c", "a", StateRunning),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "t", Attempt: 2, Start: []int{0}},
		}, {
			name: "only an older sandbox is ready",
			pod:  wantedPod(always, one), look: (&look{}).sandbox("s", true).sandbox("t", false),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "t", Attempt: 2, Start: []int{0}},
		}, {
			name: "the sandbox has the pod's network, the host's is wanted",
			pod: func() *v1.Pod {
				p := wantedPod(always, one)
				p.Spec.HostNetwork = true
				return p
			}(),
			look: (&look{}).sandbox("s", true).in("c", "a", StateRunning),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: []int{0}},
		}, {
			name: "a sandbox on the host's network needs no address",
			pod: func() *v1.Pod {
				p := wantedPod(always, one)
				p.Spec.HostNetwork = true
				return p
			}(),
			look: func() *look {
				l := (&look{}).sandbox("s", true).in("c", "a", StateRunning)
				l.status.Sandboxes[0].HostNetwork, l.status.Sandboxes[0].IPs = true, nil
				return l
			}(),
			want: Actions{SandboxID: "s"},
		}, {
			name: "a sandbox on the pod's network without an address",
			pod:  wantedPod(always, one),
			look: func() *look {
				l := (&look{}).sandbox("s", true).in("c", "a", StateRunning)
				l.status.Sandboxes[0].IPs = nil
				return l
			}(),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: []int{0}},
		}, {
			name: "the sandbox died, policy Never: what has run does not run again",
			pod:  wantedPod(never, one), look: (&look{}).sandbox("s", false).in("c", "a", StateExited, exit(1)),
			want: Actions{KillPod: true, SandboxID: "s", Attempt: 1},
		}, {
			name: "the sandbox died, policy Never, nothing had run",
			pod:  wantedPod(never, one), look: (&look{}).sandbox("s", false),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: []int{0}},
		}, {
			name: "the sandbox died, policy Never, a container was only created",
			pod:  wantedPod(never, one), look: (&look{}).sandbox("s", false).in("c", "a", StateCreated),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: []int{0}, Remove: []string{"c"}},
		}, {
			name: "the sandbox died, policy OnFailure: what succeeded stays done",
			pod:  wantedPod(onFailure, two),
			look: (&look{}).sandbox("s", false).in("c", "a", StateExited).in("d", "b", StateExited, exit(137)),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: []int{1}},
		}, {
			name: "the sandbox died, policy OnFailure, all succeeded: no new sandbox",
			pod:  wantedPod(onFailure, two),
			look: (&look{}).sandbox("s", false).in("c", "a", StateExited).in("d", "b", StateExited),
			want: Actions{KillPod: true, SandboxID: "s", Attempt: 1},
		}, {
			name: "the sandbox died: init containers run again from the first, their history goes",
			pod:  wantedPod(always, one, "i", "j"),
			look: (&look{}).sandbox("s", false).in("x", "i", StateExited).in("y", "j", StateExited).in("c", "a", StateExited),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, StartInit: []int{0}, RemoveInit: []string{"x", "y"}},
		},

		// Init containers.
		{
			name: "after a power loss a stale created container is no progress (k/k#140309)",
			pod:  wantedPod(always, one, "i", "j"),
			look: (&look{}).sandbox("s", false).in("c", "a", StateCreated).sandbox("t", true).in("x", "i", StateExited),
			want: Actions{SandboxID: "t", Attempt: 1, StartInit: []int{1}, Remove: []string{"c"}},
		}, {
			name: "init containers of an older sandbox are no progress",
			pod:  wantedPod(always, one, "i", "j"),
			look: (&look{}).sandbox("s", false).in("x", "i", StateExited).in("y", "j", StateExited).sandbox("t", true),
			want: Actions{SandboxID: "t", Attempt: 1, StartInit: []int{0}},
		}, {
			name: "an init container runs: wait",
			pod:  wantedPod(always, one, "i", "j"), look: (&look{}).sandbox("s", true).in("x", "i", StateRunning),
			want: Actions{SandboxID: "s"},
		}, {
			name: "an init container succeeded: the next",
			pod:  wantedPod(always, one, "i", "j"), look: (&look{}).sandbox("s", true).in("x", "i", StateExited),
			want: Actions{SandboxID: "s", StartInit: []int{1}},
		}, {
			name: "the last init container succeeded: the regular ones",
			pod:  wantedPod(always, two, "i", "j"),
			look: (&look{}).sandbox("s", true).in("x", "i", StateExited).in("y", "j", StateExited),
			want: Actions{SandboxID: "s", Start: []int{0, 1}},
		}, {
			name: "progress is read from the last one: earlier ones may have been removed",
			pod:  wantedPod(always, one, "i", "j"), look: (&look{}).sandbox("s", true).in("y", "j", StateExited),
			want: Actions{SandboxID: "s", Start: []int{0}},
		}, {
			name: "an init container failed: again",
			pod:  wantedPod(onFailure, one, "i"), look: (&look{}).sandbox("s", true).in("x", "i", StateExited, exit(1)),
			want: Actions{SandboxID: "s", StartInit: []int{0}},
		}, {
			name: "an init container failed, policy Never: the pod has failed",
			pod:  wantedPod(never, one, "i"), look: (&look{}).sandbox("s", true).in("x", "i", StateExited, exit(1)),
			want: Actions{KillPod: true, SandboxID: "s"},
		}, {
			name: "out of memory is a failure also with exit code 0",
			pod:  wantedPod(always, one, "i"), look: (&look{}).sandbox("s", true).in("x", "i", StateExited, oomKilled),
			want: Actions{SandboxID: "s", StartInit: []int{0}},
		}, {
			name: "an init container in unknown state is ended first",
			pod:  wantedPod(always, one, "i"), look: (&look{}).sandbox("s", true).in("x", "i", StateUnknown),
			want: Actions{SandboxID: "s", Kill: []Kill{killed("x", "i", KillUnknown)}, StartInit: []int{0}},
		}, {
			name: "an init container in unknown state, policy Never",
			pod:  wantedPod(never, one, "i"), look: (&look{}).sandbox("s", true).in("x", "i", StateUnknown),
			want: Actions{KillPod: true, SandboxID: "s"},
		}, {
			name: "an init container that was only created is started",
			pod:  wantedPod(never, one, "i"), look: (&look{}).sandbox("s", true).in("x", "i", StateCreated),
			want: Actions{SandboxID: "s", StartInit: []int{0}, Created: map[string]string{"i": "x"}},
		}, {
			name: "a regular container proves that init was done, also when it has exited",
			pod:  wantedPod(always, one, "i"), look: (&look{}).sandbox("s", true).in("c", "a", StateExited, exit(1)),
			want: Actions{SandboxID: "s", Start: []int{0}},
		}, {
			name: "only the newest exited instance of an init container is kept",
			pod:  wantedPod(always, one, "i"),
			look: (&look{}).sandbox("s", true).in("x", "i", StateExited, exit(1)).in("y", "i", StateExited, exit(1)).in("z", "i", StateRunning),
			want: Actions{SandboxID: "s", RemoveInit: []string{"x"}},
		},

		// Regular containers.
		{
			name: "all run: nothing to do",
			pod:  wantedPod(always, two),
			look: (&look{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "b", StateRunning),
			want: Actions{SandboxID: "s"},
		}, {
			name: "one has exited, policy Always",
			pod:  wantedPod(always, two),
			look: (&look{}).sandbox("s", true).in("c", "a", StateExited).in("d", "b", StateRunning),
			want: Actions{SandboxID: "s", Start: []int{0}},
		}, {
			name: "policy OnFailure: only the one that failed",
			pod:  wantedPod(onFailure, two),
			look: (&look{}).sandbox("s", true).in("c", "a", StateExited).in("d", "b", StateExited, exit(2)),
			want: Actions{SandboxID: "s", Start: []int{1}},
		}, {
			name: "policy OnFailure, all succeeded: the pod has ended",
			pod:  wantedPod(onFailure, two),
			look: (&look{}).sandbox("s", true).in("c", "a", StateExited).in("d", "b", StateExited),
			want: Actions{KillPod: true, SandboxID: "s"},
		}, {
			name: "policy Never: one still runs, the other stays as it is",
			pod:  wantedPod(never, two),
			look: (&look{}).sandbox("s", true).in("c", "a", StateExited, exit(1)).in("d", "b", StateRunning),
			want: Actions{SandboxID: "s"},
		}, {
			name: "policy Never: one was never made",
			pod:  wantedPod(never, two),
			look: (&look{}).sandbox("s", true).in("c", "a", StateExited, exit(1)),
			want: Actions{SandboxID: "s", Start: []int{1}},
		}, {
			name: "a deleted pod starts nothing",
			pod: func() *v1.Pod {
				p := wantedPod(always, two)
				p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
				return p
			}(),
			look: (&look{}).sandbox("s", true).in("c", "a", StateExited),
			want: Actions{KillPod: true, SandboxID: "s"},
		}, {
			name: "unknown state is ended first and started whatever the policy",
			pod:  wantedPod(never, one), look: (&look{}).sandbox("s", true).in("c", "a", StateUnknown),
			want: Actions{SandboxID: "s", Kill: []Kill{killed("c", "a", KillUnknown)}, Start: []int{0}},
		}, {
			name: "a container that was only created is started",
			pod:  wantedPod(always, one), look: (&look{}).sandbox("s", true).in("c", "a", StateCreated),
			want: Actions{SandboxID: "s", Start: []int{0}, Created: map[string]string{"a": "c"}},
		}, {
			name: "one created from another definition is made anew",
			pod:  wantedPod(always, one), look: (&look{}).sandbox("s", true).in("c", "a", StateCreated, otherHash),
			want: Actions{SandboxID: "s", Start: []int{0}, Remove: []string{"c"}},
		}, {
			name: "one created in an older sandbox is made anew",
			pod:  wantedPod(always, one), look: (&look{}).sandbox("s", false).in("c", "a", StateCreated).sandbox("t", true),
			want: Actions{SandboxID: "t", Attempt: 1, Start: []int{0}, Remove: []string{"c"}},
		}, {
			name: "one created beside the one that runs goes",
			pod:  wantedPod(always, one),
			look: (&look{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "a", StateCreated),
			want: Actions{SandboxID: "s", Remove: []string{"d"}},
		}, {
			name: "two were created: the newest is started",
			pod:  wantedPod(always, one),
			look: (&look{}).sandbox("s", true).in("c", "a", StateCreated).in("d", "a", StateCreated),
			want: Actions{SandboxID: "s", Start: []int{0}, Created: map[string]string{"a": "d"}, Remove: []string{"c"}},
		}, {
			name: "a created one does not hide that the policy is done with it",
			pod:  wantedPod(never, one),
			look: (&look{}).sandbox("s", true).in("c", "a", StateExited).in("d", "a", StateCreated),
			want: Actions{KillPod: true, SandboxID: "s"},
		}, {
			name: "the definition changed: restarted whatever the policy",
			pod:  wantedPod(never, one), look: (&look{}).sandbox("s", true).in("c", "a", StateRunning, otherHash),
			want: Actions{SandboxID: "s", Kill: []Kill{killed("c", "a", KillChanged)}, Start: []int{0}},
		}, {
			name: "a container without a hash is left alone",
			pod:  wantedPod(always, one), look: (&look{}).sandbox("s", true).in("c", "a", StateRunning, noHash),
			want: Actions{SandboxID: "s"},
		}, {
			name: "liveness failed: killed with the probe's grace and restarted",
			pod: func() *v1.Pod {
				p := wantedPod(always, two)
				p.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: &probeSeconds}
				return p
			}(),
			look:   (&look{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "b", StateRunning),
			failed: map[string]KillReason{"c": KillLiveness},
			want: Actions{SandboxID: "s", Start: []int{0},
				Kill: []Kill{{ID: "c", Name: "a", Reason: KillLiveness, Grace: &probeSeconds}}},
		}, {
			name:   "startup failed, policy Never: killed and not restarted, the other goes on",
			pod:    wantedPod(never, two),
			look:   (&look{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "b", StateRunning),
			failed: map[string]KillReason{"c": KillStartup},
			want:   Actions{SandboxID: "s", Kill: []Kill{killed("c", "a", KillStartup)}},
		}, {
			name:   "the only one failed its probe, policy Never: the pod has ended",
			pod:    wantedPod(never, one),
			look:   (&look{}).sandbox("s", true).in("c", "a", StateRunning),
			failed: map[string]KillReason{"c": KillLiveness},
			want:   Actions{KillPod: true, SandboxID: "s"},
		}, {
			name:   "the failed probe of an earlier instance says nothing",
			pod:    wantedPod(always, one),
			look:   (&look{}).sandbox("s", true).in("b", "a", StateExited).in("c", "a", StateRunning),
			failed: map[string]KillReason{"b": KillLiveness},
			want:   Actions{SandboxID: "s"},
		}, {
			name: "two run: the older one goes",
			pod:  wantedPod(always, one),
			look: (&look{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "a", StateRunning),
			want: Actions{SandboxID: "s", Kill: []Kill{killed("c", "a", KillSurplus)}},
		}, {
			name: "one runs in a dead sandbox beside the one that is wanted",
			pod:  wantedPod(always, one),
			look: (&look{}).sandbox("s", false).in("c", "a", StateRunning).sandbox("t", true).in("d", "a", StateRunning),
			want: Actions{SandboxID: "t", Attempt: 1, Kill: []Kill{killed("c", "a", KillSurplus)}},
		}, {
			name: "one runs in a dead sandbox only: it is ended before another starts",
			pod:  wantedPod(always, one),
			look: (&look{}).sandbox("s", false).in("c", "a", StateRunning).sandbox("t", true),
			want: Actions{SandboxID: "t", Attempt: 1, Kill: []Kill{killed("c", "a", KillSurplus)}, Start: []int{0}},
		}, {
			name: "a container that the pod does not have goes",
			pod:  wantedPod(always, one),
			look: (&look{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "z", StateRunning),
			want: Actions{SandboxID: "s", Kill: []Kill{killed("d", "z", KillSurplus)}},
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got := Plan(PlanInput{Pod: tc.pod, Status: &tc.look.status, Failed: tc.failed})
			options := cmp.Options{
				cmpopts.EquateEmpty(),
				cmpopts.IgnoreFields(Kill{}, "Message"),
				cmpopts.SortSlices(func(a, b string) bool { return a < b }),
			}
			if diff := cmp.Diff(tc.want, got, options); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			for _, k := range got.Kill {
				if k.Message == "" {
					t.Errorf("kill of %s has no message", k.ID)
				}
			}
		})
	}
}

func TestPlanWithoutStatus(t *testing.T) {
	got := Plan(PlanInput{Pod: wantedPod(v1.RestartPolicyAlways, []string{"a"})})
	if !got.CreateSandbox || got.KillPod {
		t.Errorf("got %+v, want a first sandbox", got)
	}
}

func TestPlanKillMessages(t *testing.T) {
	pod := wantedPod(v1.RestartPolicyAlways, []string{"a"})
	l := (&look{}).sandbox("s", true).in("c", "a", StateRunning, otherHash)
	got := Plan(PlanInput{Pod: pod, Status: &l.status})
	if want := "Container a definition changed, will be restarted"; got.Kill[0].Message != want {
		t.Errorf("got %q, want %q", got.Kill[0].Message, want)
	}
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	pod.Spec.Containers = append(pod.Spec.Containers, wantedPod("", []string{"b"}).Spec.Containers[0])
	l = (&look{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "b", StateRunning)
	got = Plan(PlanInput{Pod: pod, Status: &l.status, Failed: map[string]KillReason{"c": KillLiveness}})
	if want := "Container a failed liveness probe"; got.Kill[0].Message != want {
		t.Errorf("got %q, want %q", got.Kill[0].Message, want)
	}
}
