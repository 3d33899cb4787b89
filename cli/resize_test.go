package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
)

// resizeDaemon is a fake daemon of the pod web, which is ready, and whose resize has one condition after the other,
// one for each request for rollouts; the last one stays.
func resizeDaemon(t *testing.T, conditions ...v1.PodCondition) *fakeDaemon {
	t.Helper()
	r := rollout("Stable")
	r.UID = "u1"
	d, _ := rolloutDaemon(t, r)
	var asked atomic.Int32
	set := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		pod := d.pods[0]
		pod.UID = "u1"
		pod.Status = v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}
		if c := conditions[min(int(asked.Add(1)), len(conditions))-1]; c.Type != "" {
			c.Status = v1.ConditionTrue
			pod.Status.Conditions = append(pod.Status.Conditions, c)
		}
		d.pods = []v1.Pod{pod}
	}
	set()
	asked.Store(0)
	d.stop()
	d.routes["GET /podstead/v1/rollouts"] = func(w http.ResponseWriter, _ *http.Request) {
		set()
		_ = json.NewEncoder(w).Encode([]api.Rollout{r})
	}
	return d.start()
}

// A revision is rolled out when its pod has the resources of it: neither a resize that is not possible nor one that
// waits is reported as a success.
func TestRolloutStatusOfAResize(t *testing.T) {
	infeasible := v1.PodCondition{Type: v1.PodResizePending, Reason: "Infeasible", Message: "8 cpus, 2 exist"}
	deferred := v1.PodCondition{Type: v1.PodResizePending, Reason: "Deferred", Message: "no cpu is free"}
	inProgress := v1.PodCondition{Type: v1.PodResizeInProgress}
	failed := v1.PodCondition{Type: v1.PodResizeInProgress, Reason: "Error", Message: "memory in use"}
	for name, c := range map[string]struct {
		conditions []v1.PodCondition
		args       string
		code       int
		want       string
	}{
		"infeasible": {[]v1.PodCondition{infeasible}, "rollout status web", ExitFailed,
			"pod web-n1 keeps its previous resources: its resize is Infeasible: 8 cpus, 2 exist; correct the resources in its manifest"},
		"infeasible now": {[]v1.PodCondition{infeasible}, "rollout status web --watch=false", ExitFailed,
			"its resize is Infeasible: 8 cpus, 2 exist"},
		"infeasible before": {[]v1.PodCondition{infeasible, inProgress, {}}, "rollout status web", 0, "successfully rolled out"},
		"deferred": {[]v1.PodCondition{deferred}, "rollout status web --timeout=1s", ExitTimeout,
			"revision 1111111111 is in effect: its resize is Deferred: no cpu is free"},
		"deferred now": {[]v1.PodCondition{deferred}, "rollout status web --watch=false", 0,
			"Stable: revision 1111111111 is in effect, but its resize is Deferred: no cpu is free\n"},
		"deferred before": {[]v1.PodCondition{deferred, {}}, "rollout status web", 0, "successfully rolled out"},
		"in progress": {[]v1.PodCondition{inProgress}, "rollout status web --timeout=1s", ExitTimeout,
			"revision 1111111111 is in effect: its resize is in progress"},
		"failed": {[]v1.PodCondition{failed}, "rollout status web --timeout=1s", ExitTimeout,
			"its resize failed, retrying: memory in use"},
		"waited for": {[]v1.PodCondition{infeasible}, "wait web --for=revision=u1", ExitFailed,
			"its resize is Infeasible: 8 cpus, 2 exist"},
		"get pods": {[]v1.PodCondition{infeasible}, "get pods", 0,
			"pod: default/web: its resize is Infeasible: 8 cpus, 2 exist\n"},
		"get pods -o wide": {[]v1.PodCondition{deferred}, "get pods -o wide", 0, "its resize is Deferred: no cpu is free"},
		"status":           {[]v1.PodCondition{deferred}, "status", 0, "Resize:    default/web: its resize is Deferred: no cpu is free\n"},
		"status -o json": {[]v1.PodCondition{deferred}, "status -o json", 0,
			`"resizes": [` + "\n    " + `"default/web: its resize is Deferred: no cpu is free"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := resizeDaemon(t, c.conditions...)
			out, errs, err := execute(t, "", append(strings.Fields(c.args), "--api-socket", d.socket)...)
			if err != nil && !Silent(err) {
				errs += err.Error()
			}
			if Code(err) != c.code || !strings.Contains(out+errs, c.want) {
				t.Errorf("exit code %d, want %d\n%s%s\nwant %q", Code(err), c.code, out, errs, c.want)
			}
		})
	}
}
