package supervisor

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

// Whoever waits for a pod's start does not wait for ever for one that cannot.
func TestStartedGivesUpOnWhatIsStuck(t *testing.T) {
	for _, reason := range []string{"NameTaken", "FailedMount", "CreatePodSandboxError"} {
		pod := testPod("web", "u1", "r1")
		pod.Status = v1.PodStatus{Phase: v1.PodPending, Reason: reason, Message: "why"}
		if settled, err := started(pod); !settled || err == nil {
			t.Errorf("%s: settled %v, error %v", reason, settled, err)
		}
	}
	pod := testPod("web", "u1", "r1")
	pod.Status = v1.PodStatus{Phase: v1.PodPending, Reason: "WaitingForPredecessor"}
	if settled, _ := started(pod); settled {
		t.Error("a pod that waits for its predecessor is given up")
	}
}

// Folders that a daemon left behind have no name, and are no pod to show.
func TestFoldersAreNotShownAsPods(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.p.orphan(&cri.Pod{UID: "gone"})
		b.p.orphan(&cri.Pod{UID: "ends", Name: "web", Namespace: "default"})
		if views := b.p.views(); len(views) != 1 || views[0].pod.UID != "ends" {
			t.Errorf("shown: %+v", views)
		}
	})
}
