package cluster

import (
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// statusOfBody returns the status in the body of a request.
func statusOfBody(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var patch struct{ Status map[string]any }
	if err := json.Unmarshal(body, &patch); err != nil {
		t.Fatal(err)
	}
	return patch.Status
}

// A container that runs again although the API server considers it as terminated for good keeps that state there, and
// everything else of its pod is reported: at once, and with every later change. So it is with any field that is
// refused.
func TestRefusedStatusIsSentWithoutWhatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.start()
		defer r.end()
		pass(time.Second)
		uid := r.bind("web")
		pass(200 * time.Millisecond)
		running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
		ended := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 0, ContainerID: "a"}}
		// What a real server does, and one that refuses every IP of the host.
		terminated := false
		r.react = func(req fakeRequest) (runtime.Object, error) {
			if req.sub != "status" || req.resource != "pods" {
				return nil, nil
			}
			var causes field.ErrorList
			st := statusOfBody(t, req.body)
			list, changes := st["containerStatuses"].([]any)
			ends := false
			if changes {
				state, _ := list[0].(map[string]any)["state"].(map[string]any)
				if ends = state["terminated"] != nil; terminated && !ends {
					causes = append(causes, field.Forbidden(field.NewPath("status", "containerStatuses").Index(0).Child("state"),
						"may not be transitioned to non-terminated state"))
				}
			}
			if st["hostIP"] != nil {
				causes = append(causes, field.Invalid(field.NewPath("status", "hostIP"), st["hostIP"], "refused"))
			}
			if len(causes) > 0 {
				return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", causes)
			}
			terminated = terminated || ends
			return nil, nil
		}
		r.show(uid, func(st *v1.PodStatus) {
			st.Phase, st.ContainerStatuses = v1.PodRunning, []v1.ContainerStatus{{Name: "app", State: ended, ContainerID: "a"}}
		})
		pass(time.Second)
		r.requests()
		r.show(uid, func(st *v1.PodStatus) {
			st.PodIP, st.HostIP = "10.0.0.1", "192.0.2.1"
			st.ContainerStatuses = []v1.ContainerStatus{
				{Name: "app", State: running, ContainerID: "b", RestartCount: 1, Ready: true}}
		})
		pass(time.Second)
		st := r.inAPI("web").Status
		if st.PodIP != "10.0.0.1" || len(st.ContainerStatuses) != 1 || st.ContainerStatuses[0].RestartCount != 1 ||
			!st.ContainerStatuses[0].Ready {
			t.Errorf("after a refusal the API has %+v", st)
		}
		if st.ContainerStatuses[0].State.Terminated == nil || st.HostIP != "" {
			t.Errorf("the API has what it refused: %+v", st)
		}
		if warnings := r.warnings(); len(warnings) != 1 ||
			!strings.Contains(warnings[0], "API server refused a part of the pod's status") ||
			!strings.Contains(warnings[0], "status.hostIP, the state of app") {
			t.Errorf("reported: %v", warnings)
		}
		// A later change costs one request.
		r.requests()
		r.show(uid, func(st *v1.PodStatus) { st.ContainerStatuses[0].RestartCount = 2 })
		pass(time.Second)
		if n, asked := r.inAPI("web").Status.ContainerStatuses[0].RestartCount, r.requests(); n != 2 || len(asked) != 1 {
			t.Errorf("restart count %d after %v", n, asked)
		}
		// The next end is accepted.
		r.show(uid, func(st *v1.PodStatus) {
			st.ContainerStatuses[0].State = v1.ContainerState{
				Terminated: &v1.ContainerStateTerminated{ExitCode: 3, ContainerID: "b"}}
		})
		pass(time.Second)
		if end := r.inAPI("web").Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 3 {
			t.Errorf("the next end: %+v", end)
		}
	})
}

// A container that runs again although the API has its end with 0, which a pod with restartPolicy OnFailure cannot
// leave there, is shown as running: a previous daemon may have reported that end.
func TestEndThatCannotBeLeftIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.start()
		defer r.end()
		pass(time.Second)
		_, pod := aBound()
		pod.Name, pod.UID, pod.ResourceVersion, pod.Spec.RestartPolicy = "web", "", "", v1.RestartPolicyOnFailure
		pod.Status = v1.PodStatus{Phase: v1.PodRunning,
			ContainerStatuses: []v1.ContainerStatus{{Name: "app", ContainerID: "a",
				State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "a", Reason: "Completed"}}}}}
		r.replace(t, pod)
		pass(200 * time.Millisecond)
		uid := r.inAPI("web").UID
		// As a real server.
		r.react = func(req fakeRequest) (runtime.Object, error) {
			if req.sub != "status" || req.resource != "pods" {
				return nil, nil
			}
			list, changes := statusOfBody(t, req.body)["containerStatuses"].([]any)
			before := r.inAPI("web").Status.ContainerStatuses[0].State.Terminated
			if !changes || before == nil || before.ExitCode != 0 {
				return nil, nil
			}
			if state, _ := list[0].(map[string]any)["state"].(map[string]any); state["terminated"] == nil {
				return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", field.ErrorList{field.Forbidden(
					field.NewPath("status", "containerStatuses").Index(0).Child("state"),
					"may not be transitioned to non-terminated state")})
			}
			return nil, nil
		}
		started := metav1.NewTime(time.Now().Truncate(time.Second))
		show := func(restarts int32) {
			r.show(uid, func(st *v1.PodStatus) {
				st.Phase, st.ContainerStatuses = v1.PodRunning, []v1.ContainerStatus{{Name: "app", ContainerID: "b", Ready: true,
					RestartCount: restarts, State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: started}}}}
			})
			pass(5 * time.Second)
			got := r.inAPI("web").Status.ContainerStatuses[0]
			if got.State.Running == nil || !got.State.Running.StartedAt.Equal(&started) || got.RestartCount != restarts {
				t.Errorf("the API has %+v", got)
			}
		}
		show(1)
		started = metav1.NewTime(started.Add(time.Minute))
		show(2)
	})
}

// A refusal that does not say what is refused, as of an admission webhook, keeps only the fields from being reported
// that are refused each by itself. They are sent again later.
func TestRefusalWithoutACauseKeepsNothingElseBack(t *testing.T) {
	for name, refusal := range map[string]error{
		"policy":    apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("denied by a policy")),
		"webhook":   apierrors.NewBadRequest("admission webhook denied the request"),
		"invalid":   apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", nil),
		"too large": apierrors.NewRequestEntityTooLargeError("limit is 1"),
		"internal":  apierrors.NewInternalError(errors.New("etcdserver: request is too large")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newClusterHarness(t)
				r.start()
				defer r.end()
				pass(time.Second)
				uid := r.bind("web")
				pass(200 * time.Millisecond)
				var accepts atomic.Bool
				r.react = func(req fakeRequest) (runtime.Object, error) {
					if !accepts.Load() && req.sub == "status" && req.resource == "pods" && statusOfBody(t, req.body)["hostIP"] != nil {
						return nil, refusal
					}
					return nil, nil
				}
				r.show(uid, func(st *v1.PodStatus) {
					st.Phase, st.PodIP, st.HostIP = v1.PodRunning, "10.0.0.1", "192.0.2.1"
					st.Conditions = append(st.Conditions, v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue})
					st.ContainerStatuses = []v1.ContainerStatus{{Name: "app", RestartCount: 1}}
				})
				pass(time.Minute)
				st := r.inAPI("web").Status
				if st.Phase != v1.PodRunning || st.PodIP != "10.0.0.1" || conditionOf(&st, v1.PodReady) == nil ||
					len(st.ContainerStatuses) != 1 || st.HostIP != "" {
					t.Errorf("after a refusal the API has %+v", st)
				}
				r.requests()
				r.show(uid, func(st *v1.PodStatus) { st.ContainerStatuses[0].RestartCount = 2 })
				pass(time.Second)
				if n, asked := r.inAPI("web").Status.ContainerStatuses[0].RestartCount, r.requests(); n != 2 || len(asked) != 1 {
					t.Errorf("restart count %d after %v", n, asked)
				}
				pass(time.Hour)
				if n := len(r.requests()); n > 1000 {
					t.Errorf("%d requests in an hour", n)
				}
				accepts.Store(true)
				pass(2*maxRefusalDelay + time.Minute)
				if ip := r.inAPI("web").Status.HostIP; ip != "192.0.2.1" {
					t.Errorf("accepted again, the API has the host IP %q", ip)
				}
			})
		})
	}
}
