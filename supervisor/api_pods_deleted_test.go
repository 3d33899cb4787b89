package supervisor

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/manifest"
)

// An API pod that is deleted before its containers started has failed: a Job with a
// finalizer on the pod waits for a terminal phase. It stays known until its source
// removes it, also for another daemon.
func TestAPIPodIsDeletedBeforeItStarted(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(pod *v1.Pod)
		// first deletes the pod before the daemon gets it.
		first bool
	}{
		"its image cannot be pulled": {prepare: func(pod *v1.Pod) {
			pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = "none:1", v1.PullNever
		}},
		"an init container waits": {prepare: func(pod *v1.Pod) {
			pod.Spec.InitContainers = []v1.Container{{Name: "init", Image: "none:1", ImagePullPolicy: v1.PullNever}}
		}},
		"its volume is not supported": {prepare: func(pod *v1.Pod) {
			pod.Spec.Volumes = []v1.Volume{
				{Name: "disk", VolumeSource: v1.VolumeSource{RBD: &v1.RBDVolumeSource{RBDImage: "data"}}}}
		}},
		"before the node knows it": {first: true},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				pod := boundPod("p", "u1")
				pod.Finalizers = []string{"batch.kubernetes.io/job-tracking"}
				b.fake.SetImages("img:1")
				b.fake.SetPullable()
				if test.prepare != nil {
					test.prepare(pod)
				}
				d := b.start(manifest.SourceAPI)
				if !test.first {
					d.config.deliver(manifest.SourceAPI, pod)
					b.after(time.Minute)
					if st := d.status(pod.UID); st.Phase != v1.PodPending {
						t.Fatalf("before the deletion: %+v", st)
					}
				}
				grace := int64(5)
				pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, &grace
				if test.first {
					d.config.deliver(manifest.SourceAPI, pod)
				} else {
					d.config.update(manifest.Delete, pod)
				}
				for range 2 {
					b.until(time.Minute, "it has ended", func() bool { return b.daemon.Ended(pod.UID) })
					b.after(time.Hour)
					if st := b.daemon.status(pod.UID); st.Phase != v1.PodFailed || b.running(pod.UID) != 0 {
						t.Errorf("%d run; status %+v", b.running(pod.UID), st)
					}
					b.kill()
					b.start(manifest.SourceAPI).config.deliver(manifest.SourceAPI, pod)
				}
				b.daemon.config.deliver(manifest.SourceAPI)
				b.gone(pod.UID)
			})
		})
	}
}
