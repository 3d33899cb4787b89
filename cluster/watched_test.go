package cluster

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// What we wrote counts until the watch shows it or something newer; what the
// watch tells twice or too late changes nothing.
func TestWatchedKnowsOurWrites(t *testing.T) {
	wakes := 0
	w := watch[*v1.Pod](nil, "pods", "", nil, func() { wakes++ })
	of := func(uid types.UID, version string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: uid, ResourceVersion: version}}
	}
	must := func(what string, want ...string) {
		t.Helper()
		objects, _ := w.Objects()
		var got []string
		for _, o := range objects {
			got = append(got, string(o.UID)+"@"+o.ResourceVersion)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	tell := func(event apiwatch.EventType, o *v1.Pod) {
		t.Helper()
		if err := w.take(apiwatch.Event{Type: event, Object: o}); err != nil {
			t.Error(err)
		}
	}
	if _, synced := w.Objects(); synced {
		t.Error("it knows before it was told")
	}
	w.replace([]*v1.Pod{of("a", "99")})
	must("a list", "a@99")
	w.Wrote(of("a", "101"))
	must("ours", "a@101")
	tell(apiwatch.Modified, of("a", "100"))
	must("an older one", "a@101")
	tell(apiwatch.Modified, of("a", "101"))
	must("ours as the watch shows it", "a@101")
	tell(apiwatch.Modified, of("a", "102"))
	must("a newer one", "a@102")
	w.Wrote(of("a", "101"))
	must("an answer that comes late", "a@102")
	w.Wrote(of("a", "103"))
	w.Removed("a")
	must("we removed it")
	tell(apiwatch.Modified, of("a", "104"))
	must("the watch is late")
	tell(apiwatch.Deleted, of("a", "105"))
	must("the watch shows it")
	w.Wrote(of("a", "104"))
	must("an answer about what is gone")
	w.Wrote(of("b", "106"))
	must("another of the name", "b@106")
	tell(apiwatch.Deleted, of("a", "105"))
	tell(apiwatch.Added, of("c", "107"))
	tell(apiwatch.Deleted, of("b", "107"))
	must("a successor is told before its predecessor's end", "c@107")
	w.replace(nil)
	must("the API server lost everything")
	w.Wrote(of("a", "2"))
	must("its versions count anew", "a@2")
	if wakes != 17 {
		t.Errorf("%d wake-ups", wakes)
	}
	if err := w.take(apiwatch.Event{Type: apiwatch.Added, Object: &v1.Node{}}); err == nil {
		t.Error("a node among pods is no error")
	}
}
