package podorder

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestEndBlock(t *testing.T) {
	now := time.Now()
	ending := func(name, dependsOn string, left time.Duration, waits bool) endingPod {
		return endingPod{uid: types.UID("u-" + name), name: name, dependsOn: strings.Fields(dependsOn), waits: waits, until: now.Add(left)}
	}
	for name, c := range map[string]struct {
		all   []endingPod
		want  string
		until time.Duration // 0 is without limit
	}{
		"nothing else ends":            {nil, "", 0},
		"others end":                   {[]endingPod{ending("x", "y", time.Minute, false), ending("y", "", time.Minute, false)}, "", 0},
		"a dependent":                  {[]endingPod{ending("client", "cache db", time.Minute, false)}, "client", time.Minute},
		"one that is late":             {[]endingPod{ending("client", "db", 0, false)}, "", 0},
		"one of them is late":          {[]endingPod{ending("client", "db", -time.Second, false), ending("other", "db", time.Second, false)}, "other", time.Second},
		"the first that is late":       {[]endingPod{ending("a", "db", time.Minute, false), ending("b", "db", time.Second, false)}, "a b", time.Second},
		"a dependent that waits":       {[]endingPod{ending("client", "db", 0, true), ending("front", "client", time.Minute, false)}, "client", 0},
		"not by way of others":         {[]endingPod{ending("front", "client", time.Minute, false)}, "", 0},
		"its own dependency":           {[]endingPod{ending("disk", "", time.Minute, false)}, "", 0},
		"a cycle of two":               {[]endingPod{ending("db", "client", 0, true), ending("client", "db", time.Minute, true)}, "", 0},
		"a cycle of three":             {[]endingPod{ending("db", "a", 0, true), ending("a", "b", 0, true), ending("b", "db", time.Minute, false)}, "", 0},
		"a cycle and another":          {[]endingPod{ending("db", "a", 0, true), ending("a", "db", 0, true), ending("b", "db", time.Minute, false)}, "b", time.Minute},
		"another revision of the same": {[]endingPod{{uid: "u-db-2", name: "db", until: now.Add(time.Minute)}}, "", 0},
	} {
		self := ending("db", "disk", 0, false)
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
	if got := DependentsCause([]string{"a", "b", "c", "d"}).Message; got != "terminates after a, b, c (and 1 more), which depend on it" {
		t.Error(got)
	}
}
