package fsgroup

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// testGroup returns a group other than root's, where the test may set one.
func testGroup() int64 {
	if os.Geteuid() == 0 {
		return 2345
	}
	return int64(os.Getegid())
}

func ownedBy(t *testing.T, path string) (gid int64, mode os.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return int64(info.Sys().(*syscall.Stat_t).Gid), info.Mode()
}

func TestApply(t *testing.T) {
	gid := testGroup()
	top := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	for path, mode := range map[string]os.FileMode{outside: 0o600, top + "/file": 0o600,
		top + "/tool": os.ModeSetuid | 0o711} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(top+"/dir", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, top+"/dir/link"); err != nil {
		t.Fatal(err)
	}
	before, _ := ownedBy(t, outside)
	group := Group{GID: &gid}
	if err := group.Apply(t.Context(), top, ReadWrite); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{
		top: os.ModeDir | os.ModeSetgid | 0o770, top + "/dir": os.ModeDir | os.ModeSetgid | 0o770,
		top + "/file": 0o660, top + "/tool": os.ModeSetuid | 0o771, top + "/dir/link": os.ModeSymlink | 0o777,
	} {
		if got, mode := ownedBy(t, path); got != gid || mode&^0o005 != want&^0o005 {
			t.Errorf("%s: group %d, mode %v, want %d, %v", path, got, mode, gid, want)
		}
	}
	if got, mode := ownedBy(t, outside); got != before || mode != 0o600 {
		t.Errorf("a link was followed: group %d, mode %v", got, mode)
	}
	// With OnRootMismatch a matching root counts for the whole volume.
	if err := os.Chmod(top+"/file", 0o600); err != nil {
		t.Fatal(err)
	}
	group.RootMatch = true
	if err := group.Apply(t.Context(), top, ReadWrite); err != nil {
		t.Fatal(err)
	}
	if _, mode := ownedBy(t, top+"/file"); mode != 0o600 {
		t.Errorf("OnRootMismatch changed a file to %v", mode)
	}
	if err := os.Chmod(top, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := group.Apply(t.Context(), top, ReadWrite); err != nil {
		t.Fatal(err)
	}
	if _, mode := ownedBy(t, top+"/file"); mode != 0o660 {
		t.Errorf("a root that differs: file is %v", mode)
	}
}

func TestNoGroupChangesNothing(t *testing.T) {
	if err := (Group{}).Apply(t.Context(), "/nowhere", ReadWrite); err != nil {
		t.Error(err)
	}
}
