package wait

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// A wait for a revision reports why it is not in effect.
func TestAnotherRevision(t *testing.T) {
	pod := &v1.Pod{}
	if got := anotherRevision(pod); got != "running another revision" {
		t.Error(got)
	}
	pod.Status.Conditions = []v1.PodCondition{
		{Type: "podstead.io/RevisionHeld", Status: v1.ConditionTrue, Message: "ErrImagePull: none:1"}}
	if got := anotherRevision(pod); !strings.HasSuffix(got, ": none:1") {
		t.Error(got)
	}
}
