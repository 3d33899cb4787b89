package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/manifest"
)

// Modes of the directories of claims. Any user of a container may write to its claim,
// as with the usual local provisioners; on the host the directories above restrict
// access.
const (
	claimMode      = 0o777
	claimAboveMode = 0o750
)

// setupClaim gives a pod the directory of a claim, which is created at first use and
// outlives every pod. A link in the pod's directory records that the pod uses it.
func (s *setup) setupClaim(link string, src *v1.PersistentVolumeClaimVolumeSource) (Mounted, error) {
	namespace := s.req.Pod.Namespace
	dir, err := s.claimDir(namespace, src.ClaimName)
	if err != nil {
		return Mounted{}, err
	}
	mounted := Mounted{Path: dir, ReadOnly: src.ReadOnly, Relabel: true}
	claim, known := s.req.Objects.Claim(namespace, src.ClaimName)
	target, err := os.Readlink(link)
	held := err == nil && target == dir
	if !known {
		ref := manifest.ObjectRef{Kind: manifest.KindClaim, Namespace: namespace, Name: src.ClaimName}
		err := s.missing(ref, ref.String(), false)
		if !held {
			return Mounted{}, err
		}
		s.addStale(err)
		return mounted, nil
	}
	if err := checkClaim(claim); err != nil {
		return Mounted{}, fmt.Errorf("PersistentVolumeClaim %s/%s: %w", namespace, src.ClaimName, err)
	}
	mounted.ReadOnly = mounted.ReadOnly || !writable(claim)
	if held {
		return mounted, nil
	}
	if err := s.createClaim(dir, claim); err != nil {
		return Mounted{}, fmt.Errorf("PersistentVolumeClaim %s/%s: %w", namespace, src.ClaimName, err)
	}
	if err := s.group.apply(dir, groupReadWrite); err != nil {
		return Mounted{}, err
	}
	return mounted, s.linkClaim(link, dir, claim)
}

// claimDir returns the directory of a claim.
func (v *Volumes) claimDir(namespace, name string) (string, error) {
	if v.Claims == "" {
		return "", errors.New("no directory for persistent volumes is configured")
	}
	if !validName.MatchString(namespace) || !validClaim.MatchString(name) {
		return "", fmt.Errorf("invalid name of a claim: %s/%s", namespace, name)
	}
	return filepath.Join(v.Claims, namespace, name), nil
}

// checkClaim rejects what a directory cannot provide.
func checkClaim(claim *v1.PersistentVolumeClaim) error {
	spec := &claim.Spec
	switch {
	case spec.VolumeMode != nil && *spec.VolumeMode == v1.PersistentVolumeBlock:
		return errors.New("spec.volumeMode Block needs a storage driver; claims are directories here; remove the field")
	case spec.DataSource != nil, spec.DataSourceRef != nil:
		return errors.New("spec.dataSource needs a storage driver; remove the field and copy the data into the claim's directory")
	}
	return nil
}

// writable reports whether any access mode of a claim lets a pod write.
func writable(claim *v1.PersistentVolumeClaim) bool {
	modes := claim.Spec.AccessModes
	return len(modes) == 0 || slices.ContainsFunc(modes, func(m v1.PersistentVolumeAccessMode) bool { return m != v1.ReadOnlyMany })
}

// createClaim creates the directory of a claim unless it exists, and checks that no
// other pod uses a claim that is for one pod only.
func (s *setup) createClaim(dir string, claim *v1.PersistentVolumeClaim) error {
	s.claims.Lock()
	defer s.claims.Unlock()
	if err := s.checkExclusive(dir, claim); err != nil {
		return err
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), claimAboveMode); err != nil {
		return err
	}
	// The name of a claim never begins with a dot.
	temporary := filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".new")
	if err := os.Mkdir(temporary, claimMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// The umask has restricted the mode.
	if err := os.Chmod(temporary, claimMode); err != nil {
		return err
	}
	return os.Rename(temporary, dir)
}

// linkClaim records that the pod uses the claim.
func (s *setup) linkClaim(link, dir string, claim *v1.PersistentVolumeClaim) error {
	s.claims.Lock()
	defer s.claims.Unlock()
	if err := s.checkExclusive(dir, claim); err != nil {
		return err
	}
	// The user may have removed it in the meantime.
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(link), podMode); err != nil {
		return err
	}
	return replaceLink(filepath.Dir(link), filepath.Base(link), filepath.Base(link)+".new", dir)
}

// checkExclusive returns an error if another pod uses a claim that is for one pod
// only.
func (s *setup) checkExclusive(dir string, claim *v1.PersistentVolumeClaim) error {
	if !slices.Contains(claim.Spec.AccessModes, v1.ReadWriteOncePod) {
		return nil
	}
	users, err := s.claimUsers(dir)
	if err != nil {
		return err
	}
	for _, uid := range users {
		if uid != s.req.Pod.UID {
			return fmt.Errorf("access mode is ReadWriteOncePod, and the pod with UID %s uses it", uid)
		}
	}
	return nil
}

// claimUsers returns the pods that use the directory of a claim.
func (v *Volumes) claimUsers(dir string) ([]types.UID, error) {
	links, err := filepath.Glob(filepath.Join(escapeGlob(v.Root), "*", volumesDir, pluginClaim, "*"))
	if err != nil {
		return nil, err
	}
	var users []types.UID
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != dir {
			continue
		}
		rel, err := filepath.Rel(v.Root, link)
		if err != nil {
			return nil, err
		}
		uid, _, _ := strings.Cut(rel, "/")
		if !slices.Contains(users, types.UID(uid)) {
			users = append(users, types.UID(uid))
		}
	}
	return users, nil
}

// escapeGlob returns a glob that matches only the path.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// Claim is the directory of a claim as users see it.
type Claim struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Path is the directory on the host.
	Path string `json:"path"`
	// Users are the UIDs of the pods that use it.
	Users []types.UID `json:"users,omitempty"`
}

// ListClaims lists the directories of all claims by namespace and name, including
// those that no manifest declares any more.
func (v *Volumes) ListClaims() ([]Claim, error) {
	directories, err := v.ClaimDirectories()
	if err != nil {
		return nil, err
	}
	var claims []Claim
	for _, d := range directories {
		users, err := v.claimUsers(d.Path)
		if err != nil {
			return nil, err
		}
		claims = append(claims, Claim{Namespace: d.Namespace, Name: d.Name, Path: d.Path, Users: users})
	}
	return claims, nil
}

// ClaimDirectory is the directory of a claim on the host.
type ClaimDirectory struct {
	Namespace, Name, Path string
	// Created is its creation time; zero if the filesystem does not record it.
	Created time.Time
}

// ClaimDirectories lists the directories of all claims as ListClaims does.
func (v *Volumes) ClaimDirectories() ([]ClaimDirectory, error) {
	namespaces, err := os.ReadDir(v.Claims)
	if err != nil {
		return nil, ignoreNotExist(err)
	}
	var list []ClaimDirectory
	for _, namespace := range namespaces {
		entries, err := os.ReadDir(filepath.Join(v.Claims, namespace.Name()))
		if err != nil {
			return nil, err
		}
		for _, dir := range entries {
			path, err := v.claimDir(namespace.Name(), dir.Name())
			if err != nil || !dir.IsDir() {
				continue
			}
			list = append(list, ClaimDirectory{Namespace: namespace.Name(), Name: dir.Name(), Path: path, Created: creationTime(path)})
		}
	}
	return list, nil
}

// creationTime returns when a file was created; zero if the filesystem does not record it.
func creationTime(path string) time.Time {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st); err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return time.Time{}
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
}

// Errors of RemoveClaim.
var (
	ErrNoClaim    = errors.New("no such persistent volume")
	ErrClaimInUse = errors.New("the persistent volume is in use")
)

// RemoveClaim deletes the directory of a claim with its content. It is an error if a
// pod uses it, or if something is mounted in it.
func (v *Volumes) RemoveClaim(namespace, name string) error {
	dir, err := v.claimDir(namespace, name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoClaim, err)
	}
	v.claims.Lock()
	defer v.claims.Unlock()
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s/%s", ErrNoClaim, namespace, name)
	}
	users, err := v.claimUsers(dir)
	if err != nil {
		return err
	}
	if len(users) > 0 {
		return fmt.Errorf("%w: %s/%s is used by the pods with UID %v; remove these pods first", ErrClaimInUse, namespace, name, users)
	}
	if err := removeTree(dir); err != nil {
		return fmt.Errorf("failed to remove persistent volume %s/%s: %w", namespace, name, err)
	}
	return nil
}
