package rollout

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Statuses are published by the workers of the pods while the loop judges their revisions: the
// race detector finds what is read without the lock.
func TestStatusesWhileARevisionIsJudged(t *testing.T) {
	images(t, func(t *testing.T, h *imagesHarness, pod *v1.Pod) {
		edited := manifestPod("u2", tag)
		edited.Annotations[podinfo.AnnotationRollbackAfter] = "1h"
		h.edit(pod, edited)
		started := metav1.Now()
		for n := range int32(100) {
			st := &v1.PodStatus{Phase: v1.PodRunning, StartTime: &started,
				Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}
			if n%2 == 1 {
				st.Conditions = nil
				st.ContainerStatuses = []v1.ContainerStatus{
					{RestartCount: n, LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 1}}}}
			}
			h.ctl.Observe("u2", st)
			time.Sleep(time.Millisecond) // the loop judges it meanwhile
		}
		for n := range 300_000 {
			h.ctl.Observe("u2", &v1.PodStatus{Phase: v1.PodRunning, StartTime: &started,
				ContainerStatuses: []v1.ContainerStatus{{RestartCount: int32(n),
					LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 1}}}}})
		}
		synctest.Wait()
		if st, _ := h.ctl.StatusOf("default/web-n1"); st.UID != "u2" || st.State != Progressing {
			t.Errorf("%+v", st)
		}
	})
}
