package cri

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// desiredPod returns a pod with the named regular and init containers.
func desiredPod(policy v1.RestartPolicy, regular []string, init ...string) *v1.Pod {
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

func deleted(pod *v1.Pod) *v1.Pod {
	pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	return pod
}

// sidecar turns init containers into sidecars.
func sidecar(pod *v1.Pod, names ...string) *v1.Pod {
	policy := v1.ContainerRestartPolicyAlways
	for _, name := range names {
		specOf(pod, name).RestartPolicy = &policy
	}
	return pod
}

// restarting gives a container its own restart policy and rules.
func restarting(pod *v1.Pod, name string, policy v1.ContainerRestartPolicy, rules ...v1.ContainerRestartRule) *v1.Pod {
	c := specOf(pod, name)
	c.RestartPolicy, c.RestartPolicyRules = &policy, rules
	return pod
}

// on returns a rule for the given exit codes, notOn one for all others.
func on(action v1.ContainerRestartRuleAction, codes ...int32) v1.ContainerRestartRule {
	return v1.ContainerRestartRule{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
		Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: codes}}
}

func notOn(action v1.ContainerRestartRuleAction, codes ...int32) v1.ContainerRestartRule {
	rule := on(action, codes...)
	rule.ExitCodes.Operator = v1.ContainerRestartRuleOnExitCodesOpNotIn
	return rule
}

// observedPod builds an observed pod. Attempts and restart counts follow from
// the order in which instances are added, oldest first.
type observedPod struct{ status PodStatus }

func (l *observedPod) sandbox(id string, ready bool) *observedPod {
	s := Sandbox{ID: id, Ready: ready, Attempt: uint32(len(l.status.Sandboxes))}
	if ready {
		s.IPs = []string{"10.0.0.1"}
	}
	l.status.Sandboxes = append([]Sandbox{s}, l.status.Sandboxes...)
	return l
}

// in adds an instance to the newest sandbox.
func (l *observedPod) in(id, name string, state State, more ...func(*Container)) *observedPod {
	c := Container{ID: id, Name: name, State: state, SandboxID: l.status.Sandboxes[0].ID}
	for _, other := range l.status.Containers {
		if other.Name == name {
			c.RestartCount++
		}
	}
	pod := desiredPod("", []string{name})
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

const (
	always    = v1.RestartPolicyAlways
	onFailure = v1.RestartPolicyOnFailure
	never     = v1.RestartPolicyNever
)

// one and two are the regular containers of most pods in these tests.
var one, two = []string{"a"}, []string{"a", "b"}

func killed(id, name string, reason KillReason) Kill { return Kill{ID: id, Name: name, Reason: reason} }

// planCase tests one rule of Plan.
type planCase struct {
	name     string
	pod      *v1.Pod
	observed *observedPod
	failed   map[string]KillReason
	changed  map[string]string
	started  map[string]bool
	want     Actions
}

func testPlan(t *testing.T, cases []planCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got := Plan(PlanInput{Pod: tc.pod, Status: &tc.observed.status, FailedProbes: tc.failed, ChangedObjects: tc.changed,
				Started: tc.started})
			options := cmp.Options{
				cmpopts.EquateEmpty(),
				cmpopts.IgnoreFields(Kill{}, "Message"),
				// The order of these lists has no meaning.
				cmp.FilterPath(func(p cmp.Path) bool { f := p.Last().String(); return f == ".Remove" || f == ".RemoveInit" },
					cmp.FilterPath(func(p cmp.Path) bool { return !strings.Contains(p.GoString(), "RestartAll") },
						cmpopts.SortSlices(func(a, b string) bool { return a < b }))),
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
	got := Plan(PlanInput{Pod: desiredPod(v1.RestartPolicyAlways, []string{"a"})})
	if !got.CreateSandbox || got.KillPod {
		t.Errorf("got %+v, want a first sandbox", got)
	}
}

func TestPlanKillMessages(t *testing.T) {
	pod := desiredPod(v1.RestartPolicyAlways, []string{"a"})
	l := (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning, otherHash)
	got := Plan(PlanInput{Pod: pod, Status: &l.status})
	if want := "Container a definition changed, will be restarted"; got.Kill[0].Message != want {
		t.Errorf("got %q, want %q", got.Kill[0].Message, want)
	}
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	pod.Spec.Containers = append(pod.Spec.Containers, desiredPod("", []string{"b"}).Spec.Containers[0])
	l = (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "b", StateRunning)
	got = Plan(PlanInput{Pod: pod, Status: &l.status, FailedProbes: map[string]KillReason{"c": KillLiveness}})
	if want := "Container a failed liveness probe"; got.Kill[0].Message != want {
		t.Errorf("got %q, want %q", got.Kill[0].Message, want)
	}
}
