package pod

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDependsOn(t *testing.T) {
	for value, want := range map[string]string{
		"db":                        "shop/db",
		"db, other-namespace/cache": "shop/db other-namespace/cache",
		" db ,a.b ":                 "shop/db shop/a.b",
		"db\n,cache":                "shop/db shop/cache",
		"":                          "error: names no pod",
		"  ":                        "error: names no pod",
		"db,":                       "error: has an empty entry",
		",db":                       "error: has an empty entry",
		"db,,cache":                 "error: has an empty entry",
		"db cache":                  `error: entry "db cache" is not the name of a pod`,
		"DB":                        `error: entry "DB" is not the name of a pod`,
		"a/b/c":                     `error: entry "a/b/c" is not the name of a pod`,
		"/db":                       `error: entry "/db" has no valid namespace`,
		"a.b/db":                    `error: entry "a.b/db" has no valid namespace`,
		"shop/":                     `error: entry "shop/" is not the name of a pod`,
		"db, shop/db":               "error: names pod shop/db twice",
		strings.Repeat("a,", 65):    "error: has 66 entries; must be at most 64",
	} {
		names, err := DependsOn(&v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Annotations: map[string]string{AnnotationDependsOn: value}}})
		got := strings.Join(names, " ")
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want && !(strings.HasPrefix(want, "error") && strings.HasPrefix(got, want)) {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
	if names, err := DependsOn(&v1.Pod{}); names != nil || err != nil {
		t.Errorf("without the annotation: %v, %v", names, err)
	}
	names, err := DependsOn(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationDependsOn: "db"}}})
	if err != nil || !slices.Equal(names, []string{"default/db"}) {
		t.Errorf("without a namespace: %v, %v", names, err)
	}
}

func TestDependencyCycle(t *testing.T) {
	for name, c := range map[string]struct {
		edges map[string][]string
		want  string
	}{
		"none":            {map[string][]string{"a": {"b", "c"}, "b": {"c"}}, ""},
		"itself":          {map[string][]string{"a": {"a"}}, "a a"},
		"two":             {map[string][]string{"a": {"b"}, "b": {"a"}}, "a b a"},
		"three":           {map[string][]string{"a": {"x", "b"}, "b": {"c"}, "c": {"a"}}, "a b c a"},
		"the shortest":    {map[string][]string{"a": {"b", "c"}, "b": {"d"}, "d": {"a"}, "c": {"a"}}, "a c a"},
		"one further on":  {map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"b"}}, ""},
		"unknown":         {map[string][]string{"a": {"gone"}}, ""},
		"no dependencies": {nil, ""},
	} {
		got := strings.Join(DependencyCycle("a", func(n string) []string { return c.edges[n] }), " ")
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
