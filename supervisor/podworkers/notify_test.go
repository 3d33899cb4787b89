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

// A pod that waits for a claim looks again when the one that had it has gone.
func TestWhoSharesAClaimIsWoken(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.p.Update(claimPod("first", "u1", "data"))
		b.release("u1", SyncResult{})
		b.p.Update(claimPod("second", "u2", "data"))
		b.p.Update(claimPod("third", "u3", "other"))
		b.release("u2", SyncResult{After: time.Minute})
		b.release("u3", SyncResult{After: time.Minute})
		b.p.Remove("u1")
		b.releaseIf("u1", Terminating)
		if b.in("u2") != nil {
			t.Error("woken while the claim is still in use")
		}
		at := time.Now()
		b.releaseIf("u1", Terminated)
		if b.in("u2") == nil || time.Since(at) != 0 {
			t.Error("not woken when the claim was free")
		}
		if b.in("u3") != nil {
			t.Error("a pod with another claim was woken")
		}
	})
}
