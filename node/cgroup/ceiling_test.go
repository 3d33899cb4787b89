package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestCeiling(t *testing.T) {
	for name, c := range map[string]struct {
		v2 bool
		// limits by cgroup path
		limits map[string]string
		root   string
		at     string
		want   int64
	}{
		"none": {root: "/podstead"},
		"v1 without limits": {limits: map[string]string{"/machine": "9223372036854771712"},
			root: "/machine/podstead"},
		"v1": {limits: map[string]string{"/machine": "1073741824"}, root: "/machine/podstead",
			at: "/machine", want: 1 << 30},
		"own limit is no ancestor's": {limits: map[string]string{"/machine/podstead": "5"}, root: "/machine/podstead"},
		"the smallest applies": {limits: map[string]string{"/a": "100", "/a/b": "200"}, root: "/a/b/podstead",
			at: "/a", want: 100},
		"v2": {v2: true, limits: map[string]string{"/machine": "4096"}, root: "/machine/podstead",
			at: "/machine", want: 4096},
		"v2 without": {v2: true, limits: map[string]string{"/machine": "max"}, root: "/machine/podstead"},
		"v2 slice": {v2: true, limits: map[string]string{"/machine.slice": "4096"},
			root: "/machine/podstead", at: "/machine.slice", want: 4096},
		"v2 in a namespace of its own": {v2: true, limits: map[string]string{"/": "8192"}, root: "/podstead", at: "/",
			want: 8192},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, c.v2, controllerMemory)
			base, file := filepath.Join(m.root, controllerMemory), "memory.limit_in_bytes"
			if c.v2 {
				base, file = m.root, "memory.max"
			}
			for path, limit := range c.limits {
				dir := filepath.Join(base, path)
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				writeFiles(t, dir, map[string]string{file: limit + "\n"})
			}
			got, limit := m.h.ceiling(c.root)
			want := MemoryCgroup{}
			if c.at != "" {
				want = MemoryCgroup{Directory: filepath.Join(base, c.at), V2: c.v2}
			}
			if got != want || limit != c.want {
				t.Errorf("%+v of %d, want %+v of %d", got, limit, want, c.want)
			}
		})
	}
}

func TestLowerMemory(t *testing.T) {
	for ceiling, want := range map[int64]int64{0: 100, 50: 50, 200: 100} {
		list := v1.ResourceList{v1.ResourceMemory: resource.MustParse("100")}
		lowerMemory(list, ceiling)
		if got := list.Memory().Value(); got != want {
			t.Errorf("below %d: %d, want %d", ceiling, got, want)
		}
	}
}
