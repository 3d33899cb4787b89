package kubeapi

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/internal/statefile"
)

// An object that the source lists again is not modified after it was given to clients, which may be encoding it:
// neither when only the revision of its manifest changes, nor after that.
func TestListedObjectsStayAsTheyWereGivenOut(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u1"}}
	revision := "one"
	c := newCache(Source{
		List:      func() []Object { return []Object{pod} },
		Revisions: func() map[string]string { return map[string]string{"default/web": revision} },
	}, OpenVersions("", statefile.Disk{}))
	c.kind = v1.SchemeGroupVersion.WithKind("Pod")
	refresh := func() *entry {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.refresh()
		return c.entries["default/web"]
	}
	first := refresh()
	given := first.object.GetResourceVersion()
	if first.object != Object(pod) {
		t.Fatal("the first version is a copy")
	}
	revision = "two"
	second := refresh()
	if second == first || second.object.GetResourceVersion() == given {
		t.Fatal("another revision is no other version")
	}
	// A write, also of the same value, would race with the encoding of the first version.
	pod.ResourceVersion, pod.Kind = "unchanged", "unchanged"
	for range 2 {
		if refresh() != second {
			t.Fatal("another version without a change")
		}
	}
	if pod.ResourceVersion != "unchanged" || pod.Kind != "unchanged" {
		t.Errorf("the listed object was modified: %s, %s", pod.ResourceVersion, pod.Kind)
	}
}
