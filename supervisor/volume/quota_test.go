package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/projectquota"
)

// fakeQuotas are the quotas of a file system.
type fakeQuotas struct {
	off    bool
	next   uint32
	byPath map[string]projectquota.Quota
	limits map[uint32]uint64
	fault  error
}

func newFakeQuotas() *fakeQuotas {
	return &fakeQuotas{next: projectquota.First, byPath: map[string]projectquota.Quota{}, limits: map[uint32]uint64{}}
}

func (f *fakeQuotas) Enforced(dir string) error {
	if f.off {
		return projectquota.ErrNotEnforced
	}
	_, err := os.Stat(dir)
	return err
}

func (f *fakeQuotas) Get(dir string) (projectquota.Quota, error) {
	q := f.byPath[dir]
	q.Limit = f.limits[q.ID]
	return q, nil
}

func (f *fakeQuotas) New(string) (uint32, error) {
	f.next++
	return f.next - 1, f.fault
}

func (f *fakeQuotas) Assign(_ context.Context, dir string, id uint32) error {
	q := f.byPath[dir]
	q.ID, q.Accounted = id, true
	f.byPath[dir] = q
	return f.fault
}

func (f *fakeQuotas) Limit(_ string, id uint32, bytes uint64) error {
	f.limits[id] = bytes
	return f.fault
}

// quotaNode is a storageNode whose disk, and the root, have quotas.
func quotaNode(t *testing.T) (*storageNode, *fakeQuotas) {
	n, quotas := newStorageNode(t), newFakeQuotas()
	n.Quotas = quotas
	return n, quotas
}

// mustLimit sets up the claim for a pod, which always works, and compares the limit of its
// directory, and what is reported.
func (n *storageNode) mustLimit(uid types.UID, dir string, limit uint64, report string) {
	n.t.Helper()
	result, err := n.Setup(n.t.Context(), &Request{Pod: claimPod(uid, "data"), Objects: n.objects})
	if err != nil || result.Volumes["data"].Path != dir {
		n.t.Fatalf("pod %s uses %q, %v", uid, result.Volumes["data"].Path, err)
	}
	if q, _ := n.Quotas.Get(dir); q.Limit != limit {
		n.t.Errorf("the limit is %+v, want %d", q, limit)
	}
	switch {
	case report == "" && len(result.Unenforced) > 0:
		n.t.Errorf("reported %v", result.Unenforced)
	case report != "" && (len(result.Unenforced) != 1 || !strings.Contains(result.Unenforced[0].Error(), report)):
		n.t.Errorf("reported %v, want %q", result.Unenforced, report)
	}
}

func (n *storageNode) request(size string) {
	n.claim().Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
}

func TestClaimQuota(t *testing.T) {
	for _, class := range []bool{true, false} {
		n, quotas := quotaNode(t)
		dir := n.disk + "/claims/apps/data"
		if !class {
			n.claim().Spec.StorageClassName, n.objects.classes = nil, nil
			dir = n.Claims + "/apps/data"
		}
		n.mustLimit("u1", dir, 1<<30, "")
		// Another pod, a daemon that returns, and a request that grows.
		n.mustLimit("u2", dir, 1<<30, "")
		n.restart()
		n.Quotas = quotas
		n.request("2Gi")
		n.mustLimit("u1", dir, 2<<30, "")
		if quotas.next != projectquota.First+1 {
			t.Errorf("%d IDs were given out", quotas.next-projectquota.First)
		}
		// One that shrinks below what the directory contains stops no pod.
		full := quotas.byPath[dir]
		full.Used = 3 << 29
		quotas.byPath[dir] = full
		n.request("1Gi")
		n.mustLimit("u1", dir, 2<<30, "the size of PersistentVolumeClaim apps/data is not enforced: "+dir+
			" contains 1610612736 bytes, more than the requested 1Gi")
		n.teardown("u1")
		n.teardown("u2")
		if err := n.RemoveClaim("apps", "data"); err != nil {
			t.Fatal(err)
		}
		if limit := quotas.limits[full.ID]; limit != 0 {
			t.Errorf("the limit of a claim that was removed is %d", limit)
		}
	}
}

func TestClaimWithoutQuota(t *testing.T) {
	n, quotas := quotaNode(t)
	dir := n.disk + "/claims/apps/data"
	// A file system without quotas is nothing to report: podstead volumes shows it.
	quotas.off = true
	n.mustLimit("u1", dir, 0, "")
	// Nothing is assigned while a pod uses it.
	quotas.off = false
	n.mustLimit("u1", dir, 0, "was made without a quota; it gets one when its pods were removed")
	n.teardown("u1")
	quotas.fault = errors.New("no project IDs")
	n.mustLimit("u2", dir, 0, "no project IDs")
	n.teardown("u2")
	quotas.fault, quotas.byPath = nil, map[string]projectquota.Quota{dir: {ID: 5}}
	n.mustLimit("u3", dir, 0, "has the project ID 5 already, which is not podstead's")
	if len(quotas.limits) != 0 {
		t.Errorf("limits were changed: %v", quotas.limits)
	}
	n.teardown("u3")
	if err := n.RemoveClaim("apps", "data"); err != nil || len(quotas.limits) != 0 {
		t.Errorf("the limit of others was removed: %v %v", err, quotas.limits)
	}
	// What was there before keeps its content, and gets its limit with the next pod.
	quotas.off, quotas.byPath = true, map[string]projectquota.Quota{}
	n.mustLimit("u4", dir, 0, "")
	n.write(dir + "/file")
	n.teardown("u4")
	quotas.off = false
	n.mustLimit("u5", dir, 1<<30, "")
	n.mustHave(dir + "/file")
}

// emptyDirPod is a pod with an emptyDir and with limits of it and of the pod's ephemeral storage, empty for none.
func emptyDirPod(uid types.UID, medium v1.StorageMedium, sizeLimit, storage string) *v1.Pod {
	source := &v1.EmptyDirVolumeSource{Medium: medium}
	if sizeLimit != "" {
		size := resource.MustParse(sizeLimit)
		source.SizeLimit = &size
	}
	p := pod(uid, v1.Volume{Name: "cache", VolumeSource: v1.VolumeSource{EmptyDir: source}})
	if storage != "" {
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse(storage)}
	}
	return p
}

// The quota of an emptyDir is a little more than its limit, so that the pod can exceed that and is evicted. It
// is set before any container sees the directory.
func TestEmptyDirQuota(t *testing.T) {
	const slack = 4 << 20
	for _, c := range []struct {
		sizeLimit, storage string
		want               uint64
	}{
		{"", "", 0}, {"1Mi", "", 1<<20 + slack}, {"1", "", 1 + slack},
		{"", "2Mi", 2<<20 + slack}, {"3Mi", "2Mi", 2<<20 + slack}, {"1Mi", "2Mi", 1<<20 + slack}, {"0", "2Mi", 2<<20 + slack},
	} {
		n, quotas := quotaNode(t)
		path := n.Root + "/u1/volumes/kubernetes.io~empty-dir/cache"
		setup := func() {
			t.Helper()
			result, err := n.Setup(t.Context(),
				&Request{Pod: emptyDirPod("u1", v1.StorageMediumDefault, c.sizeLimit, c.storage), Objects: n.objects})
			if err != nil || result.Volumes["cache"].Path != path || len(result.Unenforced) != 0 {
				t.Fatalf("%+v %v", result, err)
			}
		}
		setup()
		setup() // an existing one is left alone
		given := quotas.next - projectquota.First
		if got := quotas.limits[projectquota.First]; got != c.want || given != uint32(min(c.want, 1)) ||
			quotas.byPath[path+".new"].ID != given*projectquota.First {
			t.Errorf("sizeLimit %q, ephemeral-storage %q: limit %d, want %d; %d IDs, %v", c.sizeLimit, c.storage, got, c.want,
				given, quotas.byPath)
		}
		n.teardown("u1")
	}
}

// A critical pod, which is not evicted by its limits, is not stopped by a quota.
func TestEmptyDirOfCriticalPod(t *testing.T) {
	n, quotas := quotaNode(t)
	p := emptyDirPod("u1", v1.StorageMediumDefault, "1Mi", "")
	priority := int32(2_000_001_000)
	p.Spec.Priority = &priority
	if _, err := n.Setup(t.Context(), &Request{Pod: p, Objects: n.objects}); err != nil || len(quotas.limits) != 0 {
		t.Errorf("limits %v, %v", quotas.limits, err)
	}
}

// A daemon that was killed before the emptyDir was complete goes on with the project that it has.
func TestEmptyDirQuotaAfterKill(t *testing.T) {
	n, quotas := quotaNode(t)
	path := n.Root + "/u1/volumes/kubernetes.io~empty-dir/cache"
	if err := os.MkdirAll(path+".new", 0o755); err != nil {
		t.Fatal(err)
	}
	quotas.byPath[path+".new"] = projectquota.Quota{ID: projectquota.First + 7}
	if _, err := n.Setup(t.Context(),
		&Request{Pod: emptyDirPod("u1", v1.StorageMediumDefault, "1Mi", ""), Objects: n.objects}); err != nil {
		t.Fatal(err)
	}
	if quotas.next != projectquota.First || quotas.limits[projectquota.First+7] == 0 {
		t.Errorf("limits %v, next ID %d", quotas.limits, quotas.next)
	}
}

// A quota that cannot be set keeps no pod from starting.
func TestEmptyDirWithoutQuota(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fakeQuotas, string)
		report string
	}{
		"no quotas": {func(q *fakeQuotas, _ string) { q.off = true }, ""},
		"of the administrator": {func(q *fakeQuotas,
			path string) {
			q.byPath[filepath.Dir(path)] = projectquota.Quota{ID: 5}
		}, ""},
		"of a volume above": {func(q *fakeQuotas, path string) {
			q.byPath[filepath.Dir(path)] = projectquota.Quota{ID: projectquota.First}
		}, ""},
		"the kernel refuses it": {func(q *fakeQuotas, _ string) { q.fault = errors.New("no more") },
			`the size of emptyDir volume "cache" is not enforced by a quota, only by eviction: no more`},
	} {
		n, quotas := quotaNode(t)
		c.change(quotas, n.Root+"/u1/volumes/kubernetes.io~empty-dir/cache")
		result, err := n.Setup(t.Context(),
			&Request{Pod: emptyDirPod("u1", v1.StorageMediumDefault, "1Mi", ""), Objects: n.objects})
		if err != nil || result.Volumes["cache"].Path == "" || len(quotas.limits) != 0 {
			t.Errorf("%s: %+v %v, limits %v", name, result, err, quotas.limits)
		}
		report := ""
		for _, err := range result.Unenforced {
			report += err.Error()
		}
		if report != c.report {
			t.Errorf("%s: reported %q", name, report)
		}
		n.teardown("u1")
	}
}

// An emptyDir that the kernel does not move with a project loses the project, and is moved again.
func TestEmptyDirThatCannotKeepItsProject(t *testing.T) {
	n, quotas := quotaNode(t)
	elsewhere, path := filepath.Join(t.TempDir(), "cache.new"), filepath.Join(t.TempDir(), "cache")
	// Between file systems the kernel refuses it with the same error, also the second time.
	if err := unix.Mount("tmpfs", filepath.Dir(elsewhere), "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(filepath.Dir(elsewhere), 0); err != nil {
			t.Error(err)
		}
	}()
	if err := os.Mkdir(elsewhere, 0o755); err != nil {
		t.Fatal(err)
	}
	quotas.byPath[elsewhere], quotas.limits[projectquota.First] = projectquota.Quota{ID: projectquota.First}, 1
	s := &setup{Volumes: n.Volumes}
	if err := s.renameEmptyDir(t.Context(), elsewhere, path, "cache"); !errors.Is(err, unix.EXDEV) {
		t.Error(err)
	}
	if quotas.byPath[elsewhere].ID != 0 || quotas.limits[projectquota.First] != 0 {
		t.Errorf("it keeps its project: %v, limits %v", quotas.byPath, quotas.limits)
	}
	if len(s.unenforced) != 1 || !strings.Contains(s.unenforced[0].Error(),
		`emptyDir volume "cache" is not enforced by a quota`) ||
		!strings.Contains(s.unenforced[0].Error(), "chattr -P "+filepath.Dir(path)) {
		t.Errorf("reported %v", s.unenforced)
	}
}
