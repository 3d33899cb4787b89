package volume

import (
	"os"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/fsgroup"
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

func TestGroupOf(t *testing.T) {
	p := pod("u1")
	if got := groupOf(p); got != (fsgroup.Group{}) {
		t.Errorf("without a group: %+v", got)
	}
	gid := testGroup()
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &gid}
	for policy, rootMatch := range map[v1.PodFSGroupChangePolicy]bool{v1.FSGroupChangeAlways: false,
		v1.FSGroupChangeOnRootMismatch: true} {
		p.Spec.SecurityContext.FSGroupChangePolicy = &policy
		if got := groupOf(p); got.GID != &gid || got.RootMatch != rootMatch {
			t.Errorf("%s: %+v", policy, got)
		}
	}
}
