package volume

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

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

func (f *fakeQuotas) Of(dir string) (projectquota.Quota, error) {
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
	if q, _ := n.Quotas.Of(dir); q.Limit != limit {
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
		n.mustLimit("u1", dir, 2<<30, "the size of PersistentVolumeClaim apps/data is not enforced: "+dir+" contains 1610612736 bytes, more than the requested 1Gi")
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
