package stats

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstead/podstead/internal/projectquota"
	"github.com/podstead/podstead/internal/treewalk"
	"github.com/podstead/podstead/internal/usage"
)

// claimMachine has the claims of a pod: a directory, a file system of its own, a directory that is
// mounted from one, and network file systems, of which one is not mounted.
func claimMachine(t *testing.T) *machine {
	m := newMachine(t)
	for _, name := range []string{"directory", "own", "bound", "unused"} {
		m.write("claims/"+name+"/deep/file", strings.Repeat("x", 100_000))
	}
	for _, name := range []string{"directory", "own", "bound", "gone"} {
		m.link("root/pods/a/volumes/kubernetes.io~local-volume/"+name, m.path("claims", name))
	}
	m.write("root/pods/a/volumes/kubernetes.io~nfs/share/file", "")
	m.write("root/pods/a/volumes/kubernetes.io~nfs/away/file", "")
	m.write("proc/self/mountinfo",
		fmt.Sprintf("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / %s rw - ext4 /dev/sdb rw\n3 "+
			"1 8:3 /other %s rw - ext4 /dev/sdc rw\n4 1 0:9 / %s rw - nfs4 s:/x rw\n",
			m.path("claims/own"), m.path("claims/bound"), m.path("root/pods/a/volumes/kubernetes.io~nfs/share")))
	return m
}

func TestClaims(t *testing.T) {
	m := claimMachine(t)
	c := m.collector()
	got := c.Claims(t.Context(), 0, []string{m.path("claims/unused"), m.path("claims/directory")})
	if len(got) != 5 {
		t.Errorf("measured %v", got)
	}
	for path, whole := range map[string]bool{
		"claims/directory": false, "claims/unused": false, "claims/bound": false,
		"claims/own": true, "root/pods/a/volumes/kubernetes.io~nfs/share": true,
	} {
		v := got[m.path(path)]
		switch {
		case v == nil || v.Capacity != 1000 || v.Available != 400 || v.Incomplete:
			t.Errorf("%s: %+v", path, v)
		case whole && (v.Used != 600 || v.InodesUsed != 60):
			t.Errorf("%s: %+v, want the usage of the whole file system", path, v)
		case !whole && (v.Used < 100_000 || v.Used > 130_000 || v.InodesUsed != 3):
			t.Errorf("%s: %+v, want the usage of the directory", path, v)
		}
	}
	m.write("claims/unused/more", strings.Repeat("x", 100_000))
	if again := c.Claims(t.Context(), time.Hour,
		nil); again[m.path("claims/unused")].Used != got[m.path("claims/unused")].Used {
		t.Error("it was measured again before its time")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if latest := c.Claims(over, time.Hour, nil); len(latest) != 5 {
		t.Errorf("a caller whose time is over gets %v", latest)
	}
}

// The kernel has counted a directory with a quota.
func TestClaimsQuota(t *testing.T) {
	m := claimMachine(t)
	c := m.collector()
	c.cfg.quotaOf = func(path string) (projectquota.Quota, error) {
		switch path {
		case m.path("claims/directory"):
			return projectquota.Quota{ID: projectquota.First, Accounted: true, Used: 70, Inodes: 7, Limit: 100}, nil
		case m.path("claims/bound"):
			return projectquota.Quota{ID: 5}, nil
		}
		return projectquota.Quota{}, errUnavailable
	}
	got := c.measureClaims(t.Context(), nil, []string{m.path("claims/unused")})
	if v := got[m.path("claims/directory")]; v == nil || v.Used != 70 || v.InodesUsed != 7 || v.Limit != 100 ||
		v.Capacity != 1000 {
		t.Errorf("a directory with a quota: %+v", v)
	}
	for _, name := range []string{"bound", "unused"} {
		if v := got[m.path("claims/"+name)]; v == nil || v.Used < 100_000 || v.Limit != 0 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// A directory that is too large to count keeps its last count, unless it had all the time.
func TestClaimsTooLarge(t *testing.T) {
	m := claimMachine(t)
	c := m.collector()
	first := c.measureClaims(t.Context(), nil, nil)
	m.write("claims/bound/more", strings.Repeat("x", 100_000))
	c.claims.tried = map[string]time.Time{m.path("claims/directory"): time.Unix(2, 0),
		m.path("claims/own"): time.Unix(1, 0), m.path("claims/bound"): time.Unix(3, 0)}
	over, cancel := context.WithCancel(t.Context())
	c.cfg.statfs = func(path string) (usage.Filesystem, bool, error) {
		if path == m.path("claims/bound") {
			cancel() // while it is measured
		}
		return usage.Filesystem{Capacity: 2000}, false, nil
	}
	second := c.measureClaims(over, first, nil)
	if v := second[m.path("claims/bound")]; v != first[m.path("claims/bound")] {
		t.Errorf("what had no time left is %+v", v)
	}
	if v := second[m.path("claims/own")]; v.Capacity != 2000 {
		t.Errorf("what was measured is %+v", v)
	}
	m = newMachine(t)
	if err := os.MkdirAll(m.path("claims/"+strings.Repeat("d/", treewalk.MaxDepth+10)), 0o755); err != nil {
		t.Fatal(err)
	}
	alone := m.collector().measureClaims(t.Context(), usage.ClaimVolumes{m.path("claims/d"): {}},
		[]string{m.path("claims/d")})
	if v := alone[m.path("claims/d")]; v == nil || !v.Incomplete || v.InodesUsed != treewalk.MaxDepth+1 {
		t.Errorf("what had all the time is %+v", v)
	}
}

// A file system that does not respond delays one measurement, and hides no other volume.
func TestClaimsHang(t *testing.T) {
	m := claimMachine(t)
	synctest.Test(t, func(t *testing.T) {
		c := m.collector()
		responses, statfs := make(chan struct{}), c.cfg.statfs
		c.cfg.statfs = func(path string) (usage.Filesystem, bool, error) {
			if path == m.path("claims/directory") {
				<-responses
			}
			return statfs(path)
		}
		// A scrape does not wait for it.
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := c.Claims(short, 0, nil); len(got) != 0 {
			t.Errorf("nothing was measured, got %v", got)
		}
		time.Sleep(diskTimeout + 2*hangGrace)
		for range 2 {
			time.Sleep(diskPause * 2 * diskTimeout)
			if got := c.Claims(t.Context(), 0, nil); got[m.path("claims/directory")] != nil || got[m.path("claims/own")] == nil {
				t.Errorf("while one hangs: %v", got)
			}
		}
		close(responses)
		time.Sleep(time.Second)
		if got := c.Claims(t.Context(), 0, nil); got[m.path("claims/directory")] == nil {
			t.Errorf("after it has answered: %v", got)
		}
	})
}

// A driver that fails for a while drops nothing of its volume; one that fails for long does.
func TestClaimsDriverError(t *testing.T) {
	m := claimMachine(t)
	c := m.collector()
	path := m.path("claims/directory")
	measured := &usage.ClaimVolume{Filesystem: usage.Filesystem{At: time.Now(), Used: 7}}
	var failure error
	c.cfg.DriverUsage = func(_ context.Context, asked string) (*usage.ClaimVolume, error) {
		if asked != path {
			return nil, nil
		}
		if failure != nil {
			return nil, failure
		}
		return measured, nil
	}
	first := c.measureClaims(t.Context(), nil, nil)
	if first[path] != measured {
		t.Fatalf("the driver's usage: %+v", first[path])
	}
	failure = errUnavailable
	second := c.measureClaims(t.Context(), first, nil)
	if second[path] != measured {
		t.Errorf("after an error of the driver: %+v, want the last usage", second[path])
	}
	if other := m.path("claims/bound"); second[other] == nil {
		t.Error("the error of a driver drops another volume")
	}
	measured.At = time.Now().Add(-driverErrorKeep)
	if old := c.measureClaims(t.Context(), second, nil)[path]; old != nil {
		t.Errorf("a usage that is too old is kept: %+v", old)
	}
}
