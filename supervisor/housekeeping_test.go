package supervisor

import (
	"testing"

	"github.com/podstead/podstead/cri"
)

// An orphan keeps the grace period that its containers were created with.
func TestFoundGrace(t *testing.T) {
	grace := int64(120)
	if got := foundGrace(&cri.Pod{Containers: []cri.Container{{Name: "db", TerminationGracePeriod: &grace}}}); got != 120 {
		t.Errorf("grace %d, want the 120 of the container", got)
	}
	if got := foundGrace(&cri.Pod{}); got != 30 {
		t.Errorf("grace %d, want the default", got)
	}
}
