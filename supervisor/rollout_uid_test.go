package supervisor

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// Two pods with UIDs of their own exchange them in one change: neither is lost.
func TestPodsExchangeTheirUIDs(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		d := b.start()
		pods := func(a, c types.UID, image string) (list []*v1.Pod) {
			for name, uid := range map[string]types.UID{"a": a, "c": c} {
				pod := withImage(testPod(name, uid, name+string(uid)), image)
				pod.Annotations[podinfo.AnnotationSource] = string(file)
				list = append(list, pod)
			}
			return list
		}
		before := pods("u1", "u2", "img:1")
		d.config.updates <- manifest.PodUpdate{Op: manifest.Add, Source: file, Pods: before}
		b.runs("u1")
		b.runs("u2")
		both := map[types.UID]bool{"u1": true, "u2": true}
		d.config.updates <- manifest.PodUpdate{Op: manifest.Remove, Source: file, Pods: before, Replaced: both,
			Successors: both}
		d.config.updates <- manifest.PodUpdate{Op: manifest.Add, Source: file, Pods: pods("u2", "u1", "img:1")}
		b.until(5*time.Minute, "both run under their new names", func() bool {
			a, okA := b.fake.Newest("a/app")
			c, okC := b.fake.Newest("c/app")
			return okA && okC && a.Running() && c.Running() && a.UID == "u2" && c.UID == "u1"
		})
		b.after(10 * time.Minute)
		if n := b.fake.Running(); n != 2 || b.running("u1") != 1 || b.running("u2") != 1 {
			t.Errorf("%d containers run\n%s\n%s", n, b.fake.Dump(), d.log)
		}
	})
}
