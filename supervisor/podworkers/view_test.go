package podworkers

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Directories that a previous daemon left have no name, and are not shown as
// pods.
func TestDirectoriesAreNotShownAsPods(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		h.workers.Orphan(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "gone"}}, 30)
		h.workers.Orphan(testPod("web", "ends", ""), 30)
		if views := h.workers.Views(); len(views) != 1 || views[0].Pod.UID != "ends" {
			t.Errorf("views: %+v", views)
		}
	})
}
