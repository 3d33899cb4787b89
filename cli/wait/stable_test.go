package wait

import (
	"encoding/json"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cli/objects"
)

// A pod that is ready for a moment, between two crashes of its container, does not run its revision
// yet. One with a readiness probe does.
func TestStableRevision(t *testing.T) {
	for _, c := range []struct {
		name  string
		runs  time.Duration
		probe *v1.Probe
		met   bool
	}{
		{"just started", 0, nil, false},
		{"has run for a moment", stableTime + time.Second, nil, true},
		{"readiness probe", 0, &v1.Probe{}, true},
	} {
		p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u1"}}
		p.Spec.Containers = []v1.Container{{Name: "main", ReadinessProbe: c.probe}}
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
		running := &v1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-c.runs))}
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", State: v1.ContainerState{Running: running}}}
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		o, err := objects.NewObject(raw)
		if err != nil {
			t.Fatal(err)
		}
		met, state, err := hasStableRevision("u1")(o)
		if met != c.met || err != nil || (state == "") != c.met {
			t.Errorf("%s: %v, %q, %v", c.name, met, state, err)
		}
	}
}
