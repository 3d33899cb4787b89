package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/volume"
)

// testBound holds the objects that an API server has reported.
type testBound struct {
	*testObjects
	volume.Cluster // for what no test asks
	awaited        []string
	held           string
	// volume is the one to which claims are bound, nil is none.
	volume *v1.PersistentVolume
}

func (o *testBound) Services(string) []*v1.Service { return nil }

func (o *testBound) Token(*v1.Pod, *v1.ServiceAccountTokenProjection) (string, error) {
	return "token", nil
}

func (o *testBound) BoundClaim(pod *v1.Pod, volume *v1.Volume) (*v1.PersistentVolumeClaim, *v1.PersistentVolume,
	error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.volume == nil {
		return nil, nil, errors.New("is not bound")
	}
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: podinfo.ClaimOf(pod, volume)}}, o.volume, nil
}

// bind binds the claims of all pods to a volume, nil to none.
func (o *testBound) bind(volume *v1.PersistentVolume) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.volume = volume
	o.notify()
}

func (o *testBound) State(pod *v1.Pod) (string, []string) {
	o.mu.Lock()
	awaited := o.awaited
	o.mu.Unlock()
	o.mu.Lock()
	text := fmt.Sprint(o.held, awaited, o.volume != nil)
	o.mu.Unlock()
	for _, ref := range manifest.References(pod) {
		if config, ok := o.ConfigMap(ref.Namespace, ref.Name); ok && ref.Kind == manifest.KindConfigMap {
			text += ref.String() + "=" + config.ResourceVersion + "\n"
		}
	}
	return text, awaited
}

func (o *testBound) Held(*v1.Pod) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held
}

func (o *testBound) Missing(manifest.ObjectRef) (what, remedy string) {
	return "is not in the cluster", "add it in the cluster"
}

// await sets what the API server has not reported yet.
func (o *testBound) await(what ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.awaited = what
	o.notify()
}

func withBound(b *supervisorHarness) (files *testObjects, bound *testBound) {
	files, bound = newTestObjects(), &testBound{testObjects: newTestObjects()}
	b.sources = func(s *Sources) { s.Objects, s.ClusterObjects = files, bound }
	return files, bound
}

// An API pod sees the cluster's objects and none of a manifest, and waits
// without a sandbox until the API server has reported them, which notifies it.
// A static pod next to it waits for nothing.
func TestBoundPodWaitsForTheAPIServer(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		files, bound := withBound(b)
		files.store("default", "cm", map[string]string{"a": "of a file"})
		bound.await("ConfigMap default/cm")
		d := b.start(file, manifest.SourceAPI)
		static, pod := objectPod("u1"), objectPod("u2")
		pod.Name = "bound"
		pod.Annotations[podinfo.AnnotationSource] = string(manifest.SourceAPI)
		d.config.deliver(file, static)
		d.config.deliver(manifest.SourceAPI, pod)
		b.until(10*time.Second, "the pod of a file runs", func() bool { return b.envOf("u1") == "of a file" })
		b.after(10 * time.Second)
		if n := instances(b, "u2"); n != 0 {
			t.Errorf("the API pod has %d containers", n)
		}
		st := d.status("u2")
		text := st.Message
		for _, c := range st.ContainerStatuses {
			if c.State.Waiting != nil {
				text += c.State.Waiting.Message
			}
		}
		if !strings.Contains(text, "waiting for the API server to report ConfigMap default/cm") {
			t.Errorf("the status does not state what it waits for: %+v", st)
		}
		ran := d.ran.Load()
		b.after(time.Hour)
		if again := d.ran.Load() - ran; again > 200 {
			t.Errorf("%d syncs in an hour", again)
		}

		// The object does not exist: the status reports it. It is
		// created: the pod runs at once.
		bound.await()
		b.until(10*time.Second, "the missing object is reported", func() bool {
			for _, c := range d.status("u2").ContainerStatuses {
				if w := c.State.Waiting; w != nil && w.Message == "env A: ConfigMap default/cm is not in the cluster" {
					return true
				}
			}
			return false
		})
		if fault := b.fault("u2"); fault != "" {
			t.Errorf("a manifest error: %q", fault)
		}
		bound.store("default", "cm", map[string]string{"a": "of the cluster"})
		b.until(5*time.Second, "it runs", func() bool { return b.envOf("u2") == "of the cluster" })
		if got := b.envOf("u1"); got != "of a file" {
			t.Errorf("the pod of a file has %q", got)
		}
	})
}

// A pod that refers to too many objects waits with the reason, until it does not.
func TestBoundPodWithTooManyReferences(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		_, bound := withBound(b)
		bound.store("default", "cm", map[string]string{"a": "of the cluster"})
		bound.hold("refers to too many")
		d := b.start(file, manifest.SourceAPI)
		pod := objectPod("u2")
		pod.Annotations[podinfo.AnnotationSource] = string(manifest.SourceAPI)
		d.config.deliver(manifest.SourceAPI, pod)
		b.after(time.Minute)
		if events := d.eventsOf(pod, reasonTooManyReferences); len(events) != 1 ||
			!strings.Contains(events[0], "refers to too many") || instances(b, "u2") != 0 {
			t.Errorf("events %q, %d containers", events, instances(b, "u2"))
		}
		bound.hold("")
		b.until(5*time.Second, "it runs", func() bool { return b.envOf("u2") == "of the cluster" })
	})
}

// hold sets why the objects of pods are not requested.
func (o *testBound) hold(why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = why
	o.notify()
}

// An API pod waits with the reason until the cluster has bound its claim. A daemon that returns reports
// nothing about a running pod whose claim the API server has not reported yet.
func TestBoundPodWithAClaim(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		_, bound := withBound(b)
		d := b.start(manifest.SourceAPI)
		pod := testPod("db", "u1", "r1")
		pod.Annotations[podinfo.AnnotationSource] = string(manifest.SourceAPI)
		pod.Spec.Volumes = []v1.Volume{{Name: "data",
			VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		d.config.deliver(manifest.SourceAPI, pod)
		b.after(time.Minute)
		if st := d.status("u1"); st.Reason != "FailedMount" ||
			!strings.Contains(st.Message, "PersistentVolumeClaim default/data: is not bound") || instances(b, "u1") != 0 {
			t.Errorf("%s: %s, %d containers", st.Reason, st.Message, instances(b, "u1"))
		}
		if list := d.ClusterClaims(); len(list) != 1 || list[0].Name != "data" || len(list[0].Waiting) != 1 ||
			list[0].Waiting[0].Reason != "is not bound" {
			t.Errorf("listed claims: %+v", list)
		}
		volume := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "v1"}}
		volume.Spec.HostPath = &v1.HostPathVolumeSource{Path: t.TempDir()}
		bound.bind(volume)
		b.runs("u1")
		if list := d.ClusterClaims(); len(list) != 1 || len(list[0].Waiting) != 0 || len(list[0].Users) != 1 ||
			list[0].Volume != volume {
			t.Errorf("listed claims: %+v", list)
		}

		b.kill()
		bound.bind(nil)
		bound.await("PersistentVolumeClaim default/data")
		d = b.start(manifest.SourceAPI)
		before := len(d.eventsOf(pod, "FailedMount"))
		d.config.deliver(manifest.SourceAPI, pod)
		b.after(time.Minute)
		if events := d.eventsOf(pod, "FailedMount"); len(events) != before || b.running("u1") != 1 {
			t.Errorf("events %q, %d containers", events, b.running("u1"))
		}
		bound.await()
		b.after(time.Minute)
		if events := d.eventsOf(pod, "FailedMount"); len(events) == before || b.running("u1") != 1 {
			t.Errorf("events %q, %d containers", events, b.running("u1"))
		}
	})
}
