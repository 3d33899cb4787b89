package volume

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	v1 "k8s.io/api/core/v1"
)

const mountLines = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
90 22 0:45 / /var/lib/pod\040stead/a\134b rw master:3 - tmpfs tmpfs rw
91 22 0:46 / /private rw,relatime - tmpfs shared:9 rw
92 91 0:46 /x /private/sub rw shared:4 master:1 - tmpfs tmpfs rw
93 92 0:46 /x /private/sub rw - tmpfs tmpfs rw
`

func TestMountInfo(t *testing.T) {
	points, err := mountinfo.GetMountsFromReader(strings.NewReader(mountLines), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range points {
		got = append(got, fmt.Sprintf("%s shared=%v slave=%v", m.Mountpoint, isShared(m), isSlave(m)))
	}
	want := []string{
		"/ shared=true slave=false",
		`/var/lib/pod stead/a\b shared=false slave=true`,
		"/private shared=false slave=false",
		"/private/sub shared=true slave=true",
		"/private/sub shared=false slave=false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := mountsBelow(points, "/private"); !slices.Equal(got, []string{"/private/sub", "/private/sub", "/private"}) {
		t.Errorf("below /private: %v, want the last mounted first", got)
	}
	for path, want := range map[string]string{"/": "/", "/privateer": "/", "/private/x": "/private",
		"/private/sub/y": "/private/sub"} {
		if got := mountOf(points, path).Mountpoint; got != want {
			t.Errorf("%s is in %s, want %s", path, got, want)
		}
	}
	if points, err := (&Volumes{}).readMounts(); err != nil || len(points) == 0 {
		t.Error(points, err)
	}
}

func TestPropagationNeedsASharedMount(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		mount mountinfo.Info
		mode  v1.MountPropagationMode
		ok    bool
	}{
		{mountinfo.Info{Mountpoint: "/"}, v1.MountPropagationNone, true},
		{mountinfo.Info{Mountpoint: "/"}, v1.MountPropagationHostToContainer, false},
		{mountinfo.Info{Mountpoint: "/"}, v1.MountPropagationBidirectional, false},
		{mountinfo.Info{Mountpoint: "/", Optional: "master:1"}, v1.MountPropagationHostToContainer, true},
		{mountinfo.Info{Mountpoint: "/", Optional: "master:1"}, v1.MountPropagationBidirectional, false},
		{mountinfo.Info{Mountpoint: "/", Optional: "shared:1"}, v1.MountPropagationBidirectional, true},
	} {
		v := &Volumes{host: host{mounts: func() ([]*mountinfo.Info, error) { return []*mountinfo.Info{&c.mount}, nil }}}
		err := v.CheckPropagation(dir, c.mode)
		if (err == nil) != c.ok {
			t.Errorf("%s in %+v: %v", c.mode, c.mount, err)
		}
		if err != nil && !strings.Contains(err.Error(), "mount --make-rshared /") {
			t.Errorf("no remedy: %v", err)
		}
	}
}
