package cluster

import (
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// What we wrote counts until the watch shows it or something newer.
func TestWatchedKnowsOurWrites(t *testing.T) {
	wakes := 0
	w := &watched[*v1.Pod]{
		Store: cache.NewStore(cache.MetaNamespaceKeyFunc), wake: func() { wakes++ },
		written: map[types.UID]*v1.Pod{}, removed: map[types.UID]bool{},
	}
	of := func(uid types.UID, version string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: uid, ResourceVersion: version}}
	}
	must := func(what string, err error, want ...string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		objects, _ := w.Objects()
		var got []string
		for _, o := range slices.Collect(maps.Values(objects)) {
			got = append(got, string(o.UID)+"@"+o.ResourceVersion)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	if _, synced := w.Objects(); synced {
		t.Error("it knows before it was told")
	}
	must("a list", w.Replace([]any{of("a", "99")}, "99"), "a@99")
	w.Wrote(of("a", "101"))
	must("ours", nil, "a@101")
	must("an older one", w.Update(of("a", "100")), "a@101")
	must("ours as the watch shows it", w.Update(of("a", "101")), "a@101")
	must("a newer one", w.Update(of("a", "102")), "a@102")
	w.Wrote(of("a", "103"))
	w.Removed("a")
	must("we removed it", nil)
	must("the watch is late", w.Update(of("a", "104")))
	must("the watch shows it", w.Delete(of("a", "105")))
	w.Wrote(of("b", "106"))
	must("another of the name", nil, "b@106")
	must("the API server lost everything", w.Replace(nil, "1"))
	if wakes != 11 {
		t.Errorf("%d wake-ups", wakes)
	}
}
