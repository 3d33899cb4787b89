package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/projectquota"
)

// quotaSlack is what the quota of an emptyDir is larger than its limit, in bytes. It is the largest part of a write
// that XFS refuses as a whole, 1024 pages: a pod that writes until nothing fits any more exceeds its limit, and is
// evicted as without a quota.
const quotaSlack = 4 << 20

// limitEmptyDir limits the size of an emptyDir that no container uses yet, if its file system enforces quotas. The
// kernel stops a pod at once that writes more, and eviction ends it: between two measurements it could fill the
// disk. A pod does not wait for that: what prevents it is reported.
func (s *setup) limitEmptyDir(ctx context.Context, dir string, vol *v1.Volume) {
	limit := emptyDirLimit(s.req.Pod, vol)
	if s.Quotas == nil || limit <= 0 || podinfo.IsCritical(s.req.Pod) {
		return // a critical pod is not evicted by its limits
	}
	if err := s.setQuota(ctx, dir, uint64(limit)); err != nil {
		s.unenforced = append(s.unenforced,
			fmt.Errorf("the size of emptyDir volume %q is not enforced by a quota, only by eviction: %w", vol.Name, err))
	}
}

// emptyDirLimit returns the limit of an emptyDir in bytes, 0 if there is none: its sizeLimit, or that of the pod's
// ephemeral storage if that is less.
func emptyDirLimit(pod *v1.Pod, vol *v1.Volume) int64 {
	limit, total := podinfo.EmptyDirLimit(vol), podinfo.EphemeralStorageLimit(pod)
	if limit <= 0 || total > 0 && total < limit {
		return total
	}
	return limit
}

func (s *setup) setQuota(ctx context.Context, dir string, limit uint64) error {
	if err := s.Quotas.Enforced(dir); err != nil {
		if errors.Is(err, projectquota.ErrNotEnforced) {
			return nil
		}
		return err
	}
	above, err := s.Quotas.Get(filepath.Dir(dir))
	if err != nil {
		return err
	}
	if above.ID != 0 {
		return nil // all of the directory is limited already, by the administrator
	}
	quota, err := s.Quotas.Get(dir)
	if err != nil {
		return err
	}
	if quota.ID == 0 {
		if quota.ID, err = s.Quotas.New(dir); err != nil {
			return err
		}
		if err := s.Quotas.Assign(ctx, dir, quota.ID); err != nil {
			return err
		}
	}
	return s.Quotas.Limit(dir, quota.ID, limit+quotaSlack)
}

// renameEmptyDir completes an emptyDir. The kernel may refuse to move one with a project into a directory that hands
// down its own: it gets none then.
func (s *setup) renameEmptyDir(ctx context.Context, temporary, path, name string) error {
	err := os.Rename(temporary, path)
	if s.Quotas == nil || !errors.Is(err, unix.EXDEV) {
		return err
	}
	s.releaseQuota(temporary)
	if err := s.Quotas.Assign(ctx, temporary, 0); err != nil {
		return err
	}
	s.unenforced = append(s.unenforced, fmt.Errorf("the size of emptyDir volume %q is not enforced by a quota, only by "+
		"eviction: %s hands down its project; clear that with: chattr -P %[2]s", name, filepath.Dir(path)))
	return os.Rename(temporary, path)
}
