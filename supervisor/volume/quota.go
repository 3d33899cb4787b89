package volume

import (
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/internal/projectquota"
)

// Quotas limits the size of directories. Implemented by projectquota.Kernel.
type Quotas interface {
	// Enforced returns projectquota.ErrNotEnforced if the file system of a directory has no
	// enforced quotas.
	Enforced(dir string) error
	Get(dir string) (projectquota.Quota, error)
	// New returns a project ID that nothing uses, and Assign gives it to a directory with all
	// that it contains.
	New(dir string) (uint32, error)
	Assign(ctx context.Context, dir string, id uint32) error
	// Limit sets the limit of a project in bytes; 0 removes it.
	Limit(dir string, id uint32, bytes uint64) error
}

// limitSize limits the directory of a claim to the size that the claim requests, if its file
// system enforces quotas. A pod does not wait for that: what prevents it is reported.
func (s *setup) limitSize(ctx context.Context, c *claimVolume, dir string, claim *v1.PersistentVolumeClaim) {
	if s.Quotas == nil || claim == nil {
		return
	}
	// Two pods must not give one directory two projects.
	lock, _ := s.quotaLocks.LoadOrStore(dir, &sync.Mutex{})
	lock.(*sync.Mutex).Lock()
	defer lock.(*sync.Mutex).Unlock()
	if err := s.enforceSize(ctx, c, dir, claim.Spec.Resources.Requests[v1.ResourceStorage]); err != nil {
		s.unenforced = append(s.unenforced,
			fmt.Errorf("the size of PersistentVolumeClaim %s/%s is not enforced: %w", claim.Namespace, claim.Name, err))
	}
}

func (s *setup) enforceSize(ctx context.Context, c *claimVolume, dir string, size resource.Quantity) error {
	if err := s.Quotas.Enforced(dir); err != nil {
		if errors.Is(err, projectquota.ErrNotEnforced) {
			return nil // as podstead volumes shows
		}
		return err
	}
	quota, err := s.Quotas.Get(dir)
	switch {
	case err != nil:
		return err
	case quota.ID == 0:
		if err := s.assignProject(ctx, c, dir); err != nil {
			return err
		}
		if quota, err = s.Quotas.Get(dir); err != nil {
			return err
		}
	case !projectquota.IsOwn(quota.ID):
		return fmt.Errorf("%s has the project ID %d already, which is not podstead's", dir, quota.ID)
	}
	limit := uint64(max(size.Value(), 0))
	switch {
	case quota.Limit == limit:
		return nil
	case quota.Used > limit:
		// A pod that works must not stop because it is looked at more closely.
		return fmt.Errorf("%s contains %d bytes, more than the requested %s; request more", dir, quota.Used, size.String())
	}
	return s.Quotas.Limit(dir, quota.ID, limit)
}

// assignProject gives a directory a project ID while no pod uses it: a program that renames a file
// meanwhile could fail, since the kernel moves no file from one project to another.
func (s *setup) assignProject(ctx context.Context, c *claimVolume, dir string) error {
	s.claims.Lock()
	users, err := s.claimUsers(c.dir)
	s.claims.Unlock()
	if err != nil {
		return err
	}
	if len(users) > 0 {
		return fmt.Errorf("%s was made without a quota; it gets one when its pods were removed and start again", dir)
	}
	id, err := s.Quotas.New(dir)
	if err != nil {
		return err
	}
	return s.Quotas.Assign(ctx, dir, id)
}

// releaseQuota removes the limit of a directory that is about to be deleted or loses its project. A limit that
// stays is removed when its ID is given out again.
func (v *Volumes) releaseQuota(dir string) {
	if v.Quotas == nil {
		return
	}
	if quota, err := v.Quotas.Get(dir); err == nil && projectquota.IsOwn(quota.ID) {
		_ = v.Quotas.Limit(dir, quota.ID, 0)
	}
}
