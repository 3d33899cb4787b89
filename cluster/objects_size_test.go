package cluster

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is counted is about what an object needs in memory, also if it has many short keys.
func TestSizeOfObjectsIsThatInMemory(t *testing.T) {
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	m := &v1.ConfigMap{Data: map[string]string{}}
	for n := range 120_000 {
		m.Data[fmt.Sprint(n)] = strings.Clone("v")
	}
	if size, need := dataSize(m), heap()-before; size < need*4/5 || size > 3*need {
		t.Errorf("counts %d bytes, needs %d", size, need)
	}
	runtime.KeepAlive(m)
}

// Metadata that nobody reads is not kept.
func TestMetadataOfObjectsIsNotKept(t *testing.T) {
	meta := metav1.ObjectMeta{
		Namespace: "default", Name: "o", UID: "u", ResourceVersion: "5", Labels: map[string]string{"a": "b"},
		Annotations:   map[string]string{"a": "b"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}, OwnerReferences: []metav1.OwnerReference{{Name: "n"}},
		Finalizers: []string{"f"},
	}
	want := metav1.ObjectMeta{Namespace: "default", Name: "o", UID: "u", ResourceVersion: "5"}
	data := map[string][]byte{"k": []byte("v")}
	for _, withContent := range []bool{true, false} {
		c := reduced(&v1.ConfigMap{ObjectMeta: meta, BinaryData: data, Data: map[string]string{"a": "b"}}, withContent)
		s := reduced(&v1.Secret{ObjectMeta: meta, Data: data, Type: "t"}, withContent)
		for _, kept := range []metav1.ObjectMeta{c.ObjectMeta, s.ObjectMeta} {
			if fmt.Sprint(kept) != fmt.Sprint(want) {
				t.Errorf("kept %v", kept)
			}
		}
		if content := len(c.Data) + len(c.BinaryData) + len(s.Data); s.Type != "t" || withContent != (content == 3) ||
			!withContent && content > 0 {
			t.Errorf("content %v: %v, %v", withContent, c, s)
		}
	}
	service := reduced(&v1.Service{ObjectMeta: meta,
		Spec: v1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []v1.ServicePort{{Port: 1}}}}, true)
	if fmt.Sprint(service.ObjectMeta) != fmt.Sprint(want) || service.Spec.ClusterIP == "" || len(service.Spec.Ports) != 1 {
		t.Errorf("kept %v", service)
	}
}

// An object that was deleted needs no space, while its pod stays.
func TestDeletedObjectMakesSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.o.space.max = 400
		r.config("first", map[string]string{"a": strings.Repeat("f", 60)}, nil)
		r.start()
		r.pod("first", configVolume("first"))
		r.config("second", map[string]string{"a": strings.Repeat("s", 60)}, nil)
		r.pod("second", configVolume("second"))
		pass(time.Second)
		if got := r.value("second", "a"); got != "none" {
			t.Fatalf("without space: %q", got)
		}
		r.remove("configmaps", "default", "first")
		pass(time.Minute)
		if got := r.value("second", "a"); got != strings.Repeat("s", 60) || r.o.space.total != entrySize+61 {
			t.Errorf("when there is space: %q, %d bytes", got, r.o.space.total)
		}
		r.end()
	})
}

// One namespace cannot take the space of all others.
func TestNamespacesShareTheSpaceOfObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.o.space.max = 10_000
		var volumes []v1.Volume
		for n := range 20 {
			name := fmt.Sprint("large", n)
			r.config(name, map[string]string{"a": strings.Repeat("x", 900)}, nil)
			volumes = append(volumes, configVolume(name))
		}
		r.replace(t, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "proxy"},
			Data: map[string]string{"a": strings.Repeat("y", 1000)}})
		r.start()
		r.pod("greedy", volumes...)
		pass(time.Minute)
		if used := r.o.space.total; used > r.o.space.max/2 || used < r.o.space.max/3 {
			t.Errorf("one namespace has %d bytes of %d", used, r.o.space.max)
		}
		r.replace(t, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "proxy"},
			Spec: v1.PodSpec{NodeName: "edge", Volumes: []v1.Volume{configVolume("proxy")},
				Containers: []v1.Container{{Name: "main", Image: "i"}}},
		})
		pass(time.Minute)
		if m, ok := r.o.ConfigMap("kube-system", "proxy"); !ok || len(m.Data["a"]) != 1000 {
			t.Error("the pod of another namespace waits")
		}
		r.end()
	})
}
