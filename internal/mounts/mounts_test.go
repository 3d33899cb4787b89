package mounts_test

import (
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"

	"github.com/podstead/podstead/internal/mounts"
)

const first = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"

// One odd line must not hide the other mounts, nor its own mount point.
func TestReadOddLines(t *testing.T) {
	for name, tc := range map[string]struct{ line, point, fsType string }{
		"long options": {"23 22 0:30 / /merged rw shared:2 - overlay overlay rw,lowerdir=" + strings.Repeat("x", 80_000),
			"/merged", "overlay"},
		"unescaped source":  {`24 22 0:31 / /mnt/odd rw - fuse bad\name rw`, "/mnt/odd", "fuse"},
		"unescaped root":    {`25 22 0:32 /a\b /mnt/root rw - fuse x rw`, "/mnt/root", "fuse"},
		"no source":         {"26 22 0:33 / /mnt/none rw - tmpfs", "/mnt/none", "tmpfs"},
		"escaped":           {`27 22 0:34 / /mnt/a\040b rw - tmpfs tmpfs rw`, "/mnt/a b", "tmpfs"},
		"no optional field": {"28 22 0:35 / /mnt/plain rw - tmpfs tmpfs rw", "/mnt/plain", "tmpfs"},
		"garbage":           {"garbage", "", ""},
		"empty":             {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := mounts.Read(strings.NewReader(first+tc.line+"\n"+strings.ReplaceAll(first, " / / ", " / /last ")), nil)
			if err != nil {
				t.Fatal(err)
			}
			var points, types []string
			for _, m := range got {
				points, types = append(points, m.Mountpoint), append(types, m.FSType)
			}
			want, wantTypes := "/,"+tc.point+",/last", "ext4,"+tc.fsType+",ext4"
			if tc.point == "" {
				want, wantTypes = "/,/last", "ext4,ext4"
			}
			if strings.Join(points, ",") != want || strings.Join(types, ",") != wantTypes {
				t.Errorf("mount points %q of types %q, want %q of %q", points, types, want, wantTypes)
			}
		})
	}
}

func TestReadFilters(t *testing.T) {
	got, err := mounts.Read(strings.NewReader(first+"23 22 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"),
		mountinfo.FSTypeFilter("cgroup2"))
	if err != nil || len(got) != 1 || got[0].Mountpoint != "/sys/fs/cgroup" {
		t.Errorf("mounts %v, %v", got, err)
	}
}

func TestSelf(t *testing.T) {
	got, err := mounts.Self()
	if err != nil || len(got) == 0 {
		t.Fatalf("mounts %v, %v", got, err)
	}
}
