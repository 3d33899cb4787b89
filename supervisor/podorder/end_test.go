package podorder

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestEndBlock(t *testing.T) {
	now := time.Now()
	ending := func(name, dependsOn string, left time.Duration) endingPod {
		return endingPod{uid: types.UID("u-" + name), name: name, dependsOn: strings.Fields(dependsOn), until: now.Add(left)}
	}
	for name, c := range map[string]struct {
		all   []endingPod
		want  string
		until time.Duration
	}{
		"nothing else ends": {nil, "", 0},
		"others end":        {[]endingPod{ending("x", "y", time.Minute), ending("y", "", time.Minute)}, "", 0},
		"a dependent":       {[]endingPod{ending("client", "cache db", time.Minute)}, "client", time.Minute},
		"one that is late":  {[]endingPod{ending("client", "db", 0)}, "", 0},
		"one of them is late": {
			[]endingPod{ending("client", "db", -time.Second), ending("other", "db", time.Second)}, "other", time.Second},
		"the first that is late": {[]endingPod{ending("a", "db", time.Minute), ending("b", "db", time.Second)}, "a b",
			time.Second},
		"not by way of others": {[]endingPod{ending("front", "client", time.Minute)}, "", 0},
		"its own dependency":   {[]endingPod{ending("disk", "", time.Minute)}, "", 0},
		"a cycle of two":       {[]endingPod{ending("db", "client", 0), ending("client", "db", time.Minute)}, "", 0},
		"a cycle of three": {
			[]endingPod{ending("db", "a", 0), ending("a", "b", 0), ending("b", "db", time.Minute)}, "", 0},
		"a cycle and another": {
			[]endingPod{ending("db", "a", 0), ending("a", "db", 0), ending("b", "db", time.Minute)}, "b", time.Minute},
		"another revision of the same": {[]endingPod{{uid: "u-db-2", name: "db", until: now.Add(time.Minute)}}, "", 0},
	} {
		self := ending("db", "disk", 0)
		names, until := endBlock(&self, c.all, now)
		left := time.Duration(0)
		if !until.IsZero() {
			left = until.Sub(now)
		}
		if got := strings.Join(names, " "); got != c.want || left != c.until {
			t.Errorf("%s: %q for %s, want %q for %s", name, got, left, c.want, c.until)
		}
	}
}

func TestDependentsCause(t *testing.T) {
	if got := DependentsCause([]string{"default/a"}).Message; got != "terminates after default/a, which depends on it" {
		t.Error(got)
	}
	if got := DependentsCause([]string{"a", "b", "c",
		"d"}).Message; got != "terminates after a, b, c (and 1 more), which depend on it" {
		t.Error(got)
	}
}
