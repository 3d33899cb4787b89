package volume

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

const mountLines = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
90 22 0:45 / /var/lib/pod\040stead/a\134b rw master:3 - tmpfs tmpfs rw
91 22 0:46 / /private rw,relatime - tmpfs shared:9 rw
92 91 0:46 /x /private/sub rw shared:4 master:1 - tmpfs tmpfs rw
93 92 0:46 /x /private/sub rw - tmpfs tmpfs rw
`

func TestMountInfo(t *testing.T) {
	points, err := parseMountInfo(strings.NewReader(mountLines))
	want := []mountPoint{
		{path: "/", shared: true},
		{path: `/var/lib/pod stead/a\b`, slave: true},
		{path: "/private"},
		{path: "/private/sub", shared: true, slave: true},
		{path: "/private/sub"},
	}
	if err != nil || !slices.Equal(points, want) {
		t.Error(points, err)
	}
	if got := mountsBelow(points, "/private"); !slices.Equal(got, []string{"/private/sub", "/private/sub", "/private"}) {
		t.Errorf("below /private: %v, want the last mounted first", got)
	}
	for path, want := range map[string]string{"/": "/", "/privateer": "/", "/private/x": "/private", "/private/sub/y": "/private/sub"} {
		if got := mountOf(points, path).path; got != want {
			t.Errorf("%s lies in %s, want %s", path, got, want)
		}
	}
	if points, err := (&Volumes{}).readMounts(); err != nil || len(points) == 0 {
		t.Error(points, err)
	}
}

func TestPropagationNeedsASharedMount(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		mount mountPoint
		mode  v1.MountPropagationMode
		ok    bool
	}{
		{mountPoint{path: "/"}, v1.MountPropagationNone, true},
		{mountPoint{path: "/"}, v1.MountPropagationHostToContainer, false},
		{mountPoint{path: "/"}, v1.MountPropagationBidirectional, false},
		{mountPoint{path: "/", slave: true}, v1.MountPropagationHostToContainer, true},
		{mountPoint{path: "/", slave: true}, v1.MountPropagationBidirectional, false},
		{mountPoint{path: "/", shared: true}, v1.MountPropagationBidirectional, true},
	} {
		v := &Volumes{mounts: func() ([]mountPoint, error) { return []mountPoint{c.mount}, nil }}
		err := v.CheckPropagation(dir, c.mode)
		if (err == nil) != c.ok {
			t.Errorf("%s in %+v: %v", c.mode, c.mount, err)
		}
		if err != nil && !strings.Contains(err.Error(), "mount --make-rshared /") {
			t.Errorf("no remedy: %v", err)
		}
	}
}
