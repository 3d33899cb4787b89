package supervisor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pod whose start or stop waits for those of other pods shows that.
func TestPodThatWaitsForOtherPodsSaysSo(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Latency("RunPodSandbox", 2*time.Second)
		b.fake.Latency("StopPodSandbox", 2*time.Second)
		const count = 200
		var pods []*v1.Pod
		for i := range count {
			pods = append(pods, testPod(fmt.Sprintf("p%d", i), types.UID(fmt.Sprintf("u%d", i)), "r1"))
		}
		d := b.start()
		d.config.deliver(file, pods...)
		says := func(words string) bool {
			for _, pod := range d.Pods() {
				if strings.Contains(pod.Status.Message, words) {
					return true
				}
			}
			return false
		}
		b.until(time.Minute, "a pod waits for the starts of others",
			func() bool { return says("waiting for the starts of other pods") })
		for _, pod := range pods {
			b.until(5*time.Minute, "all pods run", func() bool { return b.running(pod.UID) == 1 })
		}
		b.after(time.Minute)
		if says("waiting for") {
			t.Error("a pod that runs says that it waits")
		}
	})
}
