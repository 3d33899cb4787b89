package podinputs

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// A record that is too large is stored as a summary, by which a change is still found. Full
// records, which earlier versions stored in any size, are read as before.
func TestRecordsOfObjects(t *testing.T) {
	const many = 200
	name := func(i int) string { return fmt.Sprintf("%s-%d", strings.Repeat("a", 200), i) }
	pod := testPod("web")
	pod.Annotations[podinfo.AnnotationRestartOnChange] = "true"
	app := &pod.Spec.Containers[0]
	for i := range many {
		app.EnvFrom = append(app.EnvFrom, v1.EnvFromSource{ConfigMapRef: &v1.ConfigMapEnvSource{
			LocalObjectReference: v1.LocalObjectReference{Name: name(i)}, Optional: new(true)}})
	}
	// The last two do not exist at first.
	before := newTestObjects()
	for i := range many - 2 {
		before.store("default", name(i), map[string]string{"a": "1"})
	}
	revisions := New(Config{Objects: before}).objectRevisions(pod)
	summary := revisions.forContainer(pod, app)
	if len(summary) > 256 {
		t.Errorf("the record has %d bytes: %.300s", len(summary), summary)
	}
	full := revisions.text()

	small := testPod("web")
	small.Spec.Containers[0].EnvFrom = app.EnvFrom[:2]
	if got := revisions.forContainer(small, &small.Spec.Containers[0]); !strings.Contains(got, name(1)) {
		t.Errorf("a small record: %s", got)
	}

	for what, test := range map[string]struct {
		change        func(o *testObjects)
		full, summary bool
	}{
		"nothing": {func(*testObjects) {}, false, false},
		"content": {func(o *testObjects) { o.store("default", name(0), map[string]string{"a": "2"}) }, true, true},
		"removed": {func(o *testObjects) { delete(o.configs, "default/"+name(0)) }, false, false},
		"all added": {func(o *testObjects) {
			o.store("default", name(many-2), map[string]string{"a": "1"})
			o.store("default", name(many-1), map[string]string{"a": "1"})
		}, true, true},
		// Which of them exist is not known from a summary, so that it could be a removal.
		"one added": {func(o *testObjects) { o.store("default", name(many-1), map[string]string{"a": "1"}) }, true, false},
		"another key": {func(o *testObjects) {
			for _, c := range o.configs {
				c.ResourceVersion = "other-1"
			}
		}, false, false},
	} {
		objects := newTestObjects()
		for i := range many - 2 {
			objects.store("default", name(i), map[string]string{"a": "1"})
		}
		test.change(objects)
		r := New(Config{Objects: objects})
		for record, want := range map[string]bool{full: test.full, summary: test.summary} {
			observed := &cri.PodStatus{Containers: []cri.Container{
				{ID: "1", Name: "app", State: cri.StateRunning, Objects: record}}}
			if changed := r.ChangedContainers(pod, observed); (len(changed) > 0) != want {
				t.Errorf("%s, a record of %d bytes: changed %v", what, len(record), changed)
			}
			// Another set of references cannot be compared.
			edited := pod.DeepCopy()
			edited.Spec.Containers[0].EnvFrom = edited.Spec.Containers[0].EnvFrom[1:]
			if changed := r.ChangedContainers(edited, observed); record == summary && len(changed) > 0 {
				t.Errorf("%s, other references: changed %v", what, changed)
			}
		}
	}
}
