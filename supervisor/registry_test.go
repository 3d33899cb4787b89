package supervisor

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/supervisor/status"
)

func TestRegistryKeepsOrderAndCloses(t *testing.T) {
	s := &Supervisor{}
	asked := ""
	gate := func(name string, cause *status.Cause) Gate {
		return func(*v1.Pod) *status.Cause { asked += name; return cause }
	}
	s.AddGate(gate("a", nil))
	s.AddGate(gate("b", &status.Cause{Reason: "B"}))
	s.AddGate(gate("c", nil))
	if cause := s.registry.closedGate(&v1.Pod{}); cause == nil || cause.Reason != "B" || asked != "ab" {
		t.Errorf("cause %v, asked %q", cause, asked)
	}
	if now, after := s.registry.mayRestart(&v1.Pod{}, status.Disruption{Reason: "Evicted"}); !now || after != 0 {
		t.Errorf("without a policy: %t, %s", now, after)
	}
	s.registry.close()
	defer func() {
		if recover() == nil {
			t.Error("registering after Run does not panic")
		}
	}()
	s.OnObserved(func() {})
}
