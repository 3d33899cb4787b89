package projectquota

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"
)

// The structures are those of the kernel.
func TestLayout(t *testing.T) {
	var d diskQuota
	var s state
	for name, got := range map[string][2]uintptr{
		"fsxattr":         {unsafe.Sizeof(attributes{}), 28},
		"project":         {unsafe.Offsetof(attributes{}.project), 12},
		"fs_disk_quota":   {unsafe.Sizeof(d), 112},
		"d_blk_hardlimit": {unsafe.Offsetof(d.hardLimit), 8},
		"d_bcount":        {unsafe.Offsetof(d.blocks), 40},
		"d_icount":        {unsafe.Offsetof(d.inodes), 48},
		"fs_quota_statv":  {unsafe.Sizeof(s), 160},
		"qs_flags":        {unsafe.Offsetof(s.flags), 2},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, want %d", name, got[0], got[1])
		}
	}
}

func TestIDs(t *testing.T) {
	dir := t.TempDir()
	projects, projid := filepath.Join(dir, "projects"), filepath.Join(dir, "projid")
	for file, text := range map[string]string{projects: "# comment\n1879048193:/srv/a\n",
		projid: "name:1879048194\nother:5\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The limit of a directory that was deleted is removed before its ID is given out.
	onDisk := map[uint32]idUsage{First: {files: true}, First + 3: {files: true, limit: true}, First + 5: {limit: true}}
	var reset []uint32
	ids := ids{
		files: []string{projects, projid, filepath.Join(dir, "none")},
		usage: func(_ string, id uint32) (idUsage, error) { return onDisk[id], nil },
		reset: func(_ string, id uint32) error { reset = append(reset, id); return nil },
	}
	for _, want := range []uint32{First + 4, First + 5, First + 6} {
		if id, err := ids.New(dir); id != want || err != nil {
			t.Errorf("got %d, %v; want %d", id, err, want)
		}
	}
	if !slices.Equal(reset, []uint32{First + 5}) {
		t.Errorf("the limits of %v were removed", reset)
	}
	fault := errors.New("quotas are off")
	ids.usage = func(string, uint32) (idUsage, error) { return idUsage{}, fault }
	if _, err := ids.New(dir); !errors.Is(err, fault) {
		t.Errorf("got %v", err)
	}
	ids.usage = func(string, uint32) (idUsage, error) { return idUsage{files: true}, nil }
	if _, err := ids.New(dir); err == nil {
		t.Error("there are no more")
	}
	ids.files = []string{dir}
	if _, err := ids.New(dir); err == nil {
		t.Error("a file that cannot be read names IDs that are not known")
	}
}

// Without project quotas there is none, which is no fault.
func TestWithoutQuotas(t *testing.T) {
	dir := t.TempDir()
	k := Kernel{}
	if err := k.Enforced(dir); err != nil && !errors.Is(err, ErrNotEnforced) {
		t.Error(err)
	}
	if err := k.Enforced("/proc"); !errors.Is(err, ErrNotEnforced) {
		t.Errorf("/proc: %v", err)
	}
	for _, path := range []string{dir, "/proc", "/dev"} {
		if q, err := Get(path); err != nil || IsOwn(q.ID) {
			t.Errorf("%s: %+v, %v", path, q, err)
		}
	}
	if _, err := Get(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
}
