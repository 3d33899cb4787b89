package cluster

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A local write counts until the watch shows it or something newer; a duplicate
// or late event changes nothing.
func TestStoreKeepsOwnWrites(t *testing.T) {
	notified := 0
	s := newStore[*v1.Pod](func() { notified++ })
	pod := func(uid types.UID, version string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: uid, ResourceVersion: version}}
	}
	check := func(what string, want ...string) {
		t.Helper()
		objects, _ := s.Objects()
		var got []string
		for _, o := range objects {
			got = append(got, string(o.UID)+"@"+o.ResourceVersion)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	if _, synced := s.Objects(); synced {
		t.Error("synced before the first list")
	}
	s.replace([]*v1.Pod{pod("a", "99")})
	check("list", "a@99")
	s.Stored(pod("a", "101"))
	check("own write", "a@101")
	s.Stored(pod("a", "100"))
	check("older event", "a@101")
	s.Stored(pod("a", "101"))
	check("own write as the watch shows it", "a@101")
	s.Stored(pod("a", "102"))
	check("newer event", "a@102")
	s.Stored(pod("a", "101"))
	check("late answer", "a@102")
	s.Stored(pod("a", "103"))
	s.Removed("a")
	check("own removal")
	s.Stored(pod("a", "104"))
	check("late event")
	s.Removed("a")
	check("removal as the watch shows it")
	s.Stored(pod("a", "104"))
	check("answer about a removed object")
	s.Stored(pod("b", "106"))
	check("successor of the same name", "b@106")
	s.Removed("a")
	s.Stored(pod("c", "107"))
	s.Removed("b")
	check("successor before the removal of its predecessor", "c@107")
	s.replace(nil)
	check("empty list")
	s.Stored(pod("a", "2"))
	check("versions that start again", "a@2")
	if notified != 17 {
		t.Errorf("%d notifications", notified)
	}
}

func TestReflectorRejectsOtherTypes(t *testing.T) {
	r := newReflector[*v1.Pod](nil, "pods", "", nil, func() {})
	r.silence = time.NewTimer(time.Hour)
	e := events[*v1.Pod]{r}
	for name, err := range map[string]error{"added": e.Add(&v1.Node{}), "deleted": e.Delete(&v1.Node{}),
		"listed": e.Replace([]any{&v1.Node{}}, "1")} {
		if err == nil {
			t.Errorf("%s: a node among pods is no error", name)
		}
	}
}
