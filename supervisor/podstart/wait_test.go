package podstart

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhatIsStuckIsSettled(t *testing.T) {
	for _, reason := range []string{"NameTaken", "FailedMount", "CreatePodSandboxError"} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u1"}}
		pod.Status = v1.PodStatus{Phase: v1.PodPending, Reason: reason, Message: "why"}
		if settled, err := Settled(pod); !settled || err == nil {
			t.Errorf("%s: settled %v, error %v", reason, settled, err)
		}
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u1"}}
	pod.Status = v1.PodStatus{Phase: v1.PodPending, Reason: "WaitingForPredecessor"}
	if settled, _ := Settled(pod); settled {
		t.Error("a pod that waits for its predecessor counts as settled")
	}
}
