package cluster

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

func aNode() *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge", UID: "node-1"}} }

func aStatic() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-edge", Namespace: "default", UID: "abc",
			Annotations: map[string]string{podinfo.AnnotationHash: "abc"}},
		Spec: v1.PodSpec{NodeName: "edge", Containers: []v1.Container{{Name: "main", Image: "x"}}},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, PodIP: "10.0.0.1",
			Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}},
		},
	}
}

// aMirror returns the mirror as an API server returns it.
func aMirror(static *v1.Pod) *v1.Pod {
	m := mirrorOf(static, aNode())
	m.UID, m.ResourceVersion, m.Generation = "mirror-1", "5", 1
	m.Status = *static.Status.DeepCopy()
	m.Status.QOSClass = v1.PodQOSBestEffort
	return m
}

func TestMirrorStep(t *testing.T) {
	tests := map[string]struct {
		change func(static, mirror *v1.Pod, node *v1.Node) (*v1.Pod, *v1.Pod)
		want   verb
	}{
		"they agree":       {func(s, m *v1.Pod, _ *v1.Node) (*v1.Pod, *v1.Pod) { return s, m }, nothing},
		"neither is there": {func(_, _ *v1.Pod, _ *v1.Node) (*v1.Pod, *v1.Pod) { return nil, nil }, nothing},
		"no mirror":        {func(s, _ *v1.Pod, _ *v1.Node) (*v1.Pod, *v1.Pod) { return s, nil }, create},
		"no pod":           {func(_, m *v1.Pod, _ *v1.Node) (*v1.Pod, *v1.Pod) { return nil, m }, remove},
		"another revision": {func(s, m *v1.Pod, _ *v1.Node) (*v1.Pod, *v1.Pod) {
			s.Annotations[podinfo.AnnotationHash] = "def"
			return s, m
		}, remove},
		"other images of the same manifest": {func(s, m *v1.Pod, _ *v1.Node) (*v1.Pod, *v1.Pod) {
			s.Annotations[podinfo.AnnotationImages] = "def"
			return s, m
		}, remove},
		"a revision that terminates": {func(s, m *v1.Pod, _ *v1.Node) (*v1.Pod, *v1.Pod) {
			s.Annotations[podinfo.AnnotationHash], s.DeletionTimestamp = "", &metav1.Time{}
			return s, m
		}, nothing},
		"another client deletes it": {
			func(s, m *v1.Pod, _ *v1.Node) (*v1.Pod, *v1.Pod) { m.DeletionTimestamp = &metav1.Time{}; return s, m }, remove},
		"another node's": {func(s, m *v1.Pod, n *v1.Node) (*v1.Pod, *v1.Pod) { n.UID = "node-2"; return s, m }, remove},
		"runs again": {func(s, m *v1.Pod, _ *v1.Node) (*v1.Pod, *v1.Pod) {
			m.Status.Phase = v1.PodFailed
			return s,
				m
		}, remove},
		"has ended": {func(s, m *v1.Pod, _ *v1.Node) (*v1.Pod,
			*v1.Pod) {
			s.Status.Phase = v1.PodSucceeded
			return s, m
		}, patch},
		"another status": {func(s, m *v1.Pod, _ *v1.Node) (*v1.Pod, *v1.Pod) { s.Status.PodIP = ""; return s, m },
			patch},
		"ends without mirror": {func(s, _ *v1.Pod, _ *v1.Node) (*v1.Pod,
			*v1.Pod) {
			s.DeletionTimestamp = &metav1.Time{}
			return s, nil
		}, nothing},
		"the node is deleted": {func(s, _ *v1.Pod, n *v1.Node) (*v1.Pod,
			*v1.Pod) {
			n.DeletionTimestamp = &metav1.Time{}
			return s, nil
		}, nothing},
		"not observed yet": {func(s, m *v1.Pod, _ *v1.Node) (*v1.Pod, *v1.Pod) {
			s.Status = v1.PodStatus{Phase: v1.PodPending}
			return s, m
		}, nothing},
		"ended, not observed yet": {func(s, m *v1.Pod, _ *v1.Node) (*v1.Pod, *v1.Pod) {
			s.Status, m.Status.Phase = v1.PodStatus{Phase: v1.PodPending}, v1.PodFailed
			return s, m
		}, nothing},
		"another's condition": {func(s, m *v1.Pod, _ *v1.Node) (*v1.Pod, *v1.Pod) {
			m.Status.Conditions = append(m.Status.Conditions,
				v1.PodCondition{Type: "example.com/gate", Status: v1.ConditionTrue})
			return s, m
		}, nothing},
		"own condition removed": {func(s, m *v1.Pod, _ *v1.Node) (*v1.Pod, *v1.Pod) {
			m.Status.Conditions = append(m.Status.Conditions,
				v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue})
			return s, m
		}, patch},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			static, node := aStatic(), aNode()
			static, mirror := test.change(static, aMirror(static), node)
			got, err := mirrorStep(static, mirror, node)
			if err != nil || got.verb != test.want {
				t.Fatalf("%v %s, %v; want %v", got.verb, got.body, err, test.want)
			}
			if (got.verb == remove || got.verb == patch) && got.uid != "mirror-1" {
				t.Errorf("of %q", got.uid)
			}
		})
	}
}

// A patch removes fields that are gone, and names the object that it is for.
func TestStatusPatch(t *testing.T) {
	have := v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1", Message: "old"}
	got, err := statusPatch("u1", have, v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.2"})
	if err != nil {
		t.Fatal(err)
	}
	var patch map[string]map[string]any
	if err := json.Unmarshal(got, &patch); err != nil {
		t.Fatal(err)
	}
	message, named := patch["status"]["message"]
	if patch["metadata"]["uid"] != "u1" || patch["status"]["podIP"] != "10.0.0.2" || message != nil || !named ||
		len(patch["status"]) != 2 {
		t.Errorf("patch %s", got)
	}
}

func TestMirrorOf(t *testing.T) {
	priority, class := int32(7), "sandboxed"
	s := aStatic()
	s.Labels = map[string]string{"app": "web"}
	s.Spec.Priority, s.Spec.PriorityClassName, s.Spec.RuntimeClassName, s.Spec.ServiceAccountName = &priority, "mine",
		&class, "robot"
	s.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "registry"}}
	s.Spec.Volumes = []v1.Volume{
		{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "conf", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}},
		{Name: "info",
			VolumeSource: v1.VolumeSource{
				Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{DownwardAPI: &v1.DownwardAPIProjection{}}}}}},
		{Name: "mixed",
			VolumeSource: v1.VolumeSource{
				Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{Secret: &v1.SecretProjection{}}}}}},
	}
	s.Spec.Containers[0] = v1.Container{
		Name: "main", Image: "x",
		Env: []v1.EnvVar{{Name: "PLAIN", Value: "1"},
			{Name: "TOKEN", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{}}},
			{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{}}}},
		EnvFrom:      []v1.EnvFromSource{{}},
		VolumeMounts: []v1.VolumeMount{{Name: "scratch"}, {Name: "conf"}, {Name: "info"}, {Name: "mixed"}},
	}
	before := s.DeepCopy()
	m := mirrorOf(s, aNode())
	if !equalJSON(t, s, before) {
		t.Error("the static pod was changed")
	}
	want := []string{
		"spec.containers[main].envFrom", "spec.containers[main].env[TOKEN]", "spec.imagePullSecrets",
		"spec.priorityClassName",
		"spec.runtimeClassName", "spec.serviceAccountName", "spec.volumes[conf]", "spec.volumes[mixed]",
	}
	if got := strings.Split(m.Annotations[annotationLeftOut], ", "); !slices.Equal(got, want) {
		t.Errorf("omitted: %q", got)
	}
	c := m.Spec.Containers[0]
	if len(c.Env) != 2 || c.EnvFrom != nil || len(c.VolumeMounts) != 2 || len(m.Spec.Volumes) != 2 ||
		m.Spec.Priority != nil ||
		m.Spec.RuntimeClassName != nil || m.Spec.ServiceAccountName != "" || m.Spec.ImagePullSecrets != nil {
		t.Errorf("spec %+v", m.Spec)
	}
	if o := m.OwnerReferences; len(o) != 1 || o[0].UID != "node-1" || !*o[0].Controller || m.UID != "" ||
		m.Labels["app"] != "web" || m.Annotations[podinfo.AnnotationMirror] != "abc" {
		t.Errorf("metadata %+v", m.ObjectMeta)
	}

	plain := mirrorOf(aStatic(), aNode())
	if left, ok := plain.Annotations[annotationLeftOut]; ok {
		t.Errorf("an empty pod has %q omitted", left)
	}
	builtin := aStatic()
	builtin.Spec.PriorityClassName = "system-node-critical"
	if m := mirrorOf(builtin, aNode()); m.Spec.PriorityClassName == "" {
		t.Error("every cluster has the built-in classes")
	}
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(x) == string(y)
}

// The mirror of an edited manifest shows the previous revision, with its status, until
// that has terminated. Only then is it replaced.
func TestMirrorOfAnEditedManifest(t *testing.T) {
	for name, wantedFirst := range map[string]bool{"the wanted revision is listed first": true,
		"the terminating one is": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newClusterHarness(t)
				r.run("web", "one")
				r.start()
				defer r.end()
				pass(time.Second)
				before := r.mirror("web")
				r.requests()
				revision := func(hash string, terminating bool) *v1.Pod {
					p := aStatic()
					p.UID, p.Annotations = types.UID(hash),
						map[string]string{podinfo.AnnotationHash: hash, podinfo.AnnotationSource: "file"}
					if terminating {
						p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
						p.Status.Message = "ends"
					} else {
						p.Status = v1.PodStatus{Phase: v1.PodPending,
							Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse}}}
					}
					return p
				}
				ends, waits := revision("one", true), revision("two", false)
				both := []*v1.Pod{ends, waits}
				if wantedFirst {
					slices.Reverse(both)
				}
				r.setAll(both...)
				pass(time.Hour)
				if m := r.mirror("web"); m == nil || m.UID != before.UID || m.Status.Message != "ends" ||
					m.Status.Phase != v1.PodRunning {
					t.Errorf("while the previous revision ends the mirror is %v", m)
				}
				if writes := r.podWrites(); !slices.Equal(writes, []string{"PATCH"}) {
					t.Errorf("requests %q, want one PATCH", writes)
				}
				r.setAll(waits)
				pass(time.Second)
				if m := r.mirror("web"); m == nil || m.UID == before.UID || m.Annotations[podinfo.AnnotationMirror] != "two" ||
					m.Status.Phase != v1.PodPending {
					t.Errorf("after the previous revision has ended the mirror is %v", m)
				}
			})
		})
	}
}
