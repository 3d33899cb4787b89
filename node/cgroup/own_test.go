package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOwnMemoryLimit(t *testing.T) {
	for name, c := range map[string]struct {
		v2 bool
		// limits by cgroup path
		limits map[string]string
		own    string
		want   int64
	}{
		"v2": {v2: true, limits: map[string]string{"/system.slice/podstead.service": "4096"},
			own: "0::/system.slice/podstead.service\n", want: 4096},
		"v2 of an ancestor": {v2: true,
			limits: map[string]string{"/system.slice": "2048", "/system.slice/podstead.service": "4096"},
			own:    "0::/system.slice/podstead.service\n", want: 2048},
		"v2 without": {v2: true, limits: map[string]string{"/system.slice/podstead.service": "max"},
			own: "0::/system.slice/podstead.service\n"},
		"v2 container":            {v2: true, limits: map[string]string{"/": "8192"}, own: "0::/\n", want: 8192},
		"v2 outside of the mount": {v2: true, limits: map[string]string{"/a": "5"}, own: "0::/../b\n"},
		"v1": {limits: map[string]string{"/a": "4096"}, own: "5:memory:/a\n4:cpu,cpuacct:/b\n0::/\n",
			want: 4096},
		"v1 without":            {limits: map[string]string{"/a": "9223372036854771712"}, own: "5:memory:/a\n"},
		"v1 another controller": {limits: map[string]string{"/a": "4096"}, own: "5:pids:/a\n"},
		"no text":               {v2: true, limits: map[string]string{"/a": "4096"}},
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
			if got := m.h.ownMemoryLimit(c.own); got != c.want {
				t.Errorf("limit %d, want %d", got, c.want)
			}
		})
	}
}
