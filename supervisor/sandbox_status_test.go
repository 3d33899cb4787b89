package supervisor

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// While its images are pulled a pod already shows its address, and that its sandbox is ready.
func TestAddressIsShownDuringThePull(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		// The same worker publishes in another way for a pod with probes.
		probed := testPod("probed", "u2", "r1")
		probed.Spec.Containers[0].ReadinessProbe = &v1.Probe{PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1,
			SuccessThreshold: 1, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
		host := testPod("host", "u3", "r1")
		host.Spec.HostNetwork = true
		pods := []*v1.Pod{testPod("web", "u1", "r1"), probed, host}
		b.fake.SetImages("img:1")
		hold := b.fake.HoldPull("img:slow")
		for _, pod := range pods {
			withImage(pod, "img:slow")
		}
		d := b.start()
		d.config.deliver(file, pods...)
		b.until(time.Minute, "the image is pulled", func() bool { return b.fake.Pulling("img:slow") > 0 })
		for _, wait := range []time.Duration{900 * time.Millisecond, 10 * time.Minute} {
			b.after(wait)
			for _, pod := range pods {
				st := d.status(pod.UID)
				ready := condition(st, v1.PodReadyToStartContainers)
				if st.PodIP == "" && !pod.Spec.HostNetwork || ready == nil || ready.Status != v1.ConditionTrue {
					t.Errorf("after %s of its pull pod %s shows the address %q and %v", wait, pod.Name, st.PodIP, st.Conditions)
				}
				if st.Phase != v1.PodPending || st.ContainerStatuses[0].State.Waiting == nil {
					t.Errorf("%+v", st)
				}
			}
		}
		hold.Release()
		for _, pod := range pods {
			b.runs(pod.UID)
		}
	})
}
