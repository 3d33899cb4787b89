package stats

import (
	"testing"
	"time"

	"github.com/podstead/podstead/internal/usage"
)

// Pressure is read of the node, of all pods, and of each running pod and container.
func TestPressure(t *testing.T) {
	m := newMachine(t)
	m.pod("web", "main", "none")
	m.cgroup("podstead/podweb", 0, 0, 0, 1)
	m.cgroup("podstead/podweb/web-main", time.Second, 1000, 0, 1)
	m.write("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n")
	for path, total := range map[string]string{"podstead": "2", "podstead/podweb": "3", "podstead/podweb/web-main": "4"} {
		m.write("cgroup/"+path+"/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total="+total+"\n")
	}
	p, err := m.collector().Pressure(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]struct {
		list     []usage.Pressure
		resource string
		want     time.Duration
	}{
		"the node": {p.Node, "cpu", 1}, "all pods": {p.Pods, "memory", 2}, "the pod": {p.ByPod["web"], "memory", 3},
		"the container": {p.ByContainer["web-main"], "memory", 4},
	} {
		if len(got.list) != 1 || got.list[0].Resource != got.resource || got.list[0].Some != got.want*time.Microsecond {
			t.Errorf("%s: %+v", name, got.list)
		}
	}
	if len(p.ByContainer) != 1 {
		t.Errorf("containers %+v", p.ByContainer)
	}
}
