package podworkers

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func claimPod(name string, uid types.UID, claim string) *v1.Pod {
	pod := testPod(name, uid, "r1")
	pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	return pod
}

// A pod that waits for a claim syncs again when the pod that had it has ended.
func TestPodsThatShareAClaimAreNotified(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		h.workers.Update(claimPod("first", "u1", "data"))
		h.finish("u1", SyncResult{})
		h.workers.Update(claimPod("second", "u2", "data"))
		h.workers.Update(claimPod("third", "u3", "other"))
		h.finish("u2", SyncResult{After: time.Minute})
		h.finish("u3", SyncResult{After: time.Minute})
		h.workers.Remove("u1")
		h.finishIf("u1", Terminating)
		if h.inFlight("u2") != nil {
			t.Error("notified while the claim is still in use")
		}
		at := time.Now()
		h.finishIf("u1", Terminated)
		if h.inFlight("u2") == nil || time.Since(at) != 0 {
			t.Error("not notified when the claim was free")
		}
		if h.inFlight("u3") != nil {
			t.Error("a pod with another claim was notified")
		}
	})
}
