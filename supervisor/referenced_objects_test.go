package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/status"
)

// testObjects holds the objects that a test declares.
type testObjects struct {
	podinputs.NoObjects
	wake chan struct{}

	mu      sync.Mutex
	configs map[string]*v1.ConfigMap
	secrets map[string]*v1.Secret
}

func newTestObjects() *testObjects {
	return &testObjects{wake: make(chan struct{}, 1), configs: map[string]*v1.ConfigMap{},
		secrets: map[string]*v1.Secret{}}
}

func (o *testObjects) ConfigMap(namespace, name string) (*v1.ConfigMap, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found, ok := o.configs[namespace+"/"+name]
	return found, ok
}

func (o *testObjects) Secret(namespace, name string) (*v1.Secret, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found, ok := o.secrets[namespace+"/"+name]
	return found, ok
}

func (o *testObjects) Subscribe() (<-chan struct{}, func()) { return o.wake, func() {} }

// store declares a ConfigMap, or removes it if there is no data. Its revision
// follows from its content.
func (o *testObjects) store(namespace, name string, data map[string]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.configs, namespace+"/"+name)
	if data != nil {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "key-" + fmt.Sprint(data)}
		o.configs[namespace+"/"+name] = &v1.ConfigMap{ObjectMeta: meta, Data: data}
	}
	o.notify()
}

func (o *testObjects) notify() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// objectPod returns a pod that refers to the ConfigMap cm.
func objectPod(uid types.UID, annotations ...string) *v1.Pod {
	pod := testPod("web", uid, "r1")
	for _, annotation := range annotations {
		pod.Annotations[annotation] = "true"
	}
	pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{
		ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "cm"}, Key: "a"}}}}
	return pod
}

func withObjects(b *supervisorHarness) *testObjects {
	objects := newTestObjects()
	b.sources = func(s *Sources) { s.Objects = objects }
	return objects
}

func (b *supervisorHarness) fault(uid types.UID) string {
	st := b.daemon.status(uid)
	for _, c := range st.Conditions {
		if c.Type == status.ManifestFault {
			return c.Message
		}
	}
	return ""
}

// envOf returns the variable A of the pod's one running container.
func (b *supervisorHarness) envOf(uid types.UID) string {
	for _, c := range b.fake.Containers() {
		if c.Running() && c.UID == string(uid) {
			for _, e := range c.Config.Envs {
				if e.Key == "A" {
					return string(e.Value)
				}
			}
		}
	}
	return ""
}

func instances(b *supervisorHarness, uid types.UID) int {
	return len(slices.DeleteFunc(b.fake.Containers(), func(c critest.Container) bool { return c.UID != string(uid) }))
}

// A pod waits for a missing object, without repeated checks, and starts as soon
// as the object exists.
func TestPodWaitsForItsObjects(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		objects := withObjects(b)
		d := b.start()
		d.config.deliver(file, objectPod("u1"))
		waits := func(message string) func() bool {
			return func() bool {
				statuses := d.status("u1").ContainerStatuses
				return len(statuses) > 0 && statuses[0].State.Waiting != nil &&
					statuses[0].State.Waiting.Reason == "CreateContainerConfigError" &&
					statuses[0].State.Waiting.Message == message
			}
		}
		b.until(10*time.Second, "the missing object is reported", waits("env A: ConfigMap default/cm is in no manifest"))
		if fault := b.fault("u1"); !strings.Contains(fault,
			"ConfigMap default/cm is referenced by the pod but is in no manifest") {
			t.Errorf("fault is %q", fault)
		}
		b.after(10 * time.Second)
		n, ran := len(b.fake.Writes()), d.ran.Load()
		b.after(time.Hour)
		// Every pod is synced about once a minute.
		if again := d.ran.Load() - ran; again > 70 {
			t.Errorf("%d syncs in an hour", again)
		}
		b.noWrites(n)
		objects.store("default", "cm", map[string]string{"b": "x"})
		b.until(100*time.Millisecond, "the missing key is reported", waits(`env A: ConfigMap default/cm has no key "a"`))
		objects.store("other", "cm", map[string]string{"a": "x"})
		b.after(time.Second)
		b.noWrites(n)
		objects.store("default", "cm", map[string]string{"a": "1"})
		if took := b.runs("u1"); took > time.Second {
			t.Errorf("it took %s to start", took)
		}
		if got := b.envOf("u1"); got != "1" || b.fault("u1") != "" {
			t.Errorf("A is %q, fault %q", got, b.fault("u1"))
		}
	})
}

func TestChangedObjectsRestartPodsThatAskForIt(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		objects := withObjects(b)
		objects.store("default", "cm", map[string]string{"a": "1"})
		d := b.start()
		patient := objectPod("u2")
		patient.Name = "patient"
		d.config.deliver(file, objectPod("u1", podinfo.AnnotationRestartOnChange), patient)
		b.runs("u1")
		b.runs("u2")
		b.after(time.Minute)
		n := len(b.fake.Writes())
		wantRestart := func(value string, count int) {
			t.Helper()
			b.until(35*time.Second, "restart", func() bool { return b.envOf("u1") == value })
			b.after(5 * time.Minute)
			if instances(b, "u2") != 1 || b.envOf("u2") != "1" ||
				b.daemon.status("u1").ContainerStatuses[0].RestartCount != int32(count) {
				t.Fatalf("instances of the patient pod %d, statuses %+v", instances(b, "u2"),
					b.daemon.status("u1").ContainerStatuses)
			}
		}
		outdated := func(uid types.UID) string {
			for _, c := range b.daemon.status(uid).Conditions {
				if c.Type == status.EnvironmentOutdated {
					return c.Message
				}
			}
			return ""
		}
		if text := outdated("u2"); text != "" {
			t.Errorf("an unchanged pod is outdated: %s", text)
		}
		// Each change restarts at once: it is not a crash loop.
		for i, value := range []string{"2", "3", "4"} {
			objects.store("default", "cm", map[string]string{"a": value})
			b.until(35*time.Second, "restart", func() bool { return b.envOf("u1") == value })
			wantRestart(value, i+1)
		}
		if text := outdated("u2"); text != "container app runs with a previous ConfigMap default/cm; to use the present "+
			"one: podstead restart patient" || outdated("u1") != "" {
			t.Errorf("after the changes: %q, %q", text, outdated("u1"))
		}
		if calls := strings.Join(b.writes(n), " "); strings.Count(calls, "StopContainer default/web") > 3 {
			t.Errorf("calls %s", calls)
		}
		pods := []*v1.Pod{objectPod("u1", podinfo.AnnotationRestartOnChange), patient}
		// A restarted daemon repeats nothing,
		b.restart(pods...)
		b.after(10 * time.Second)
		n = len(b.fake.Writes())
		b.after(5 * time.Minute)
		b.noWrites(n)
		// and misses nothing.
		b.kill()
		objects.store("default", "cm", map[string]string{"a": "5"})
		b.restart(pods...)
		wantRestart("5", 4)
		// The removal of an object restarts nothing, over a restart of
		// the daemon too, and neither does its return with the same
		// content.
		n = len(b.fake.Writes())
		objects.store("default", "cm", nil)
		b.until(time.Second, "the fault is shown", func() bool { return b.fault("u1") != "" && b.fault("u2") != "" })
		b.restart(pods...)
		b.after(5 * time.Minute)
		objects.store("default", "cm", map[string]string{"a": "5"})
		b.until(time.Second, "the fault is gone", func() bool { return b.fault("u1") == "" && b.fault("u2") == "" })
		b.after(5 * time.Minute)
		b.noWrites(n)
	})
}

// An optional object counts as changed when it is created, not when it is
// removed.
func TestOptionalObjectIsCreated(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		objects := withObjects(b)
		pod, yes := objectPod("u1", podinfo.AnnotationRestartOnChange), true
		pod.Spec.Containers[0].Env[0].ValueFrom.ConfigMapKeyRef.Optional = &yes
		b.start().config.deliver(file, pod)
		b.runs("u1")
		if fault := b.fault("u1"); fault != "" {
			t.Errorf("fault is %q", fault)
		}
		objects.store("default", "cm", map[string]string{"a": "1"})
		b.until(35*time.Second, "restart", func() bool { return b.envOf("u1") == "1" })
		b.after(time.Minute)
		n := len(b.fake.Writes())
		objects.store("default", "cm", nil)
		b.after(5 * time.Minute)
		b.noWrites(n)
	})
}

// API pods do not see the objects of the node's manifests.
func TestPodsOfAnAPIServerSeeNoLocalObjects(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		objects := withObjects(b)
		objects.store("default", "cm", map[string]string{"a": "1"})
		d := b.start(manifest.SourceAPI)
		d.config.deliver(manifest.SourceAPI, objectPod("u1"))
		b.until(10*time.Second, "it waits", func() bool {
			statuses := d.status("u1").ContainerStatuses
			return len(statuses) > 0 && statuses[0].State.Waiting != nil &&
				statuses[0].State.Waiting.Reason == "CreateContainerConfigError"
		})
	})
}
