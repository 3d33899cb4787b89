package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/manifest"
)

// Modes of the folders of claims. Whoever a container runs as may write to its
// claim, as with the usual local provisioners; nobody gets there on the host
// but through the folders above.
const (
	claimMode      = 0o777
	claimAboveMode = 0o750
)

// setupClaim gives a pod the folder of a claim, which is made when it is first
// asked for and outlives every pod. A link in the pod's folder says that the
// pod uses it.
func (s *setup) setupClaim(link string, src *v1.PersistentVolumeClaimVolumeSource) (Mounted, error) {
	namespace := s.req.Pod.Namespace
	folder, err := s.claimDir(namespace, src.ClaimName)
	if err != nil {
		return Mounted{}, err
	}
	mounted := Mounted{Path: folder, ReadOnly: src.ReadOnly, Relabel: true}
	claim, known := s.req.Objects.Claim(namespace, src.ClaimName)
	target, err := os.Readlink(link)
	held := err == nil && target == folder
	if !known {
		ref := manifest.ObjectRef{Kind: manifest.KindClaim, Namespace: namespace, Name: src.ClaimName}
		err := s.missing(ref, ref.String(), false)
		if !held {
			return Mounted{}, err
		}
		s.keep(err)
		return mounted, nil
	}
	if err := checkClaim(claim); err != nil {
		return Mounted{}, fmt.Errorf("PersistentVolumeClaim %s/%s: %w", namespace, src.ClaimName, err)
	}
	mounted.ReadOnly = mounted.ReadOnly || !writable(claim)
	if held {
		return mounted, nil
	}
	if err := s.take(folder, claim); err != nil {
		return Mounted{}, fmt.Errorf("PersistentVolumeClaim %s/%s: %w", namespace, src.ClaimName, err)
	}
	if err := s.owner.apply(folder, ownAll); err != nil {
		return Mounted{}, err
	}
	return mounted, s.linkClaim(link, folder, claim)
}

// claimDir is the folder of a claim.
func (v *Volumes) claimDir(namespace, name string) (string, error) {
	if v.Claims == "" {
		return "", errors.New("there is no folder for persistent volumes")
	}
	if !validName.MatchString(namespace) || !validClaim.MatchString(name) {
		return "", fmt.Errorf("%s/%s is no valid name of a claim", namespace, name)
	}
	return filepath.Join(v.Claims, namespace, name), nil
}

// checkClaim refuses what a folder cannot give.
func checkClaim(claim *v1.PersistentVolumeClaim) error {
	spec := &claim.Spec
	switch {
	case spec.VolumeMode != nil && *spec.VolumeMode == v1.PersistentVolumeBlock:
		return errors.New("spec.volumeMode Block needs a storage driver; claims are folders here, so take it out")
	case spec.DataSource != nil, spec.DataSourceRef != nil:
		return errors.New("spec.dataSource needs a storage driver; put the data into the claim's folder yourself")
	}
	return nil
}

// writable reports whether any access mode of a claim lets a pod write.
func writable(claim *v1.PersistentVolumeClaim) bool {
	modes := claim.Spec.AccessModes
	return len(modes) == 0 || slices.ContainsFunc(modes, func(m v1.PersistentVolumeAccessMode) bool { return m != v1.ReadOnlyMany })
}

// take makes the folder of a claim if it is not there, and looks that nobody
// else has one that is for one pod only.
func (s *setup) take(folder string, claim *v1.PersistentVolumeClaim) error {
	s.claims.Lock()
	defer s.claims.Unlock()
	if err := s.checkAlone(folder, claim); err != nil {
		return err
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(folder), claimAboveMode); err != nil {
		return err
	}
	// A slash cannot be in a claim's name, and it never begins with a dot.
	fresh := filepath.Join(filepath.Dir(folder), "."+filepath.Base(folder)+".new")
	if err := os.Mkdir(fresh, claimMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// The umask took a part of the mode.
	if err := os.Chmod(fresh, claimMode); err != nil {
		return err
	}
	return os.Rename(fresh, folder)
}

// linkClaim notes that the pod uses the claim.
func (s *setup) linkClaim(link, folder string, claim *v1.PersistentVolumeClaim) error {
	s.claims.Lock()
	defer s.claims.Unlock()
	if err := s.checkAlone(folder, claim); err != nil {
		return err
	}
	// It may have been removed by command meanwhile.
	if _, err := os.Stat(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(link), podMode); err != nil {
		return err
	}
	return replaceLink(filepath.Dir(link), filepath.Base(link), filepath.Base(link)+".new", folder)
}

// checkAlone is an error if another pod has a claim that is for one pod only.
func (s *setup) checkAlone(folder string, claim *v1.PersistentVolumeClaim) error {
	if !slices.Contains(claim.Spec.AccessModes, v1.ReadWriteOncePod) {
		return nil
	}
	users, err := s.claimUsers(folder)
	if err != nil {
		return err
	}
	for _, uid := range users {
		if uid != s.req.Pod.UID {
			return fmt.Errorf("its access mode is ReadWriteOncePod, and the pod with UID %s uses it", uid)
		}
	}
	return nil
}

// claimUsers are the pods that use the folder of a claim.
func (v *Volumes) claimUsers(folder string) ([]types.UID, error) {
	links, err := filepath.Glob(filepath.Join(escapeGlob(v.Root), "*", volumesDir, pluginClaim, "*"))
	if err != nil {
		return nil, err
	}
	var users []types.UID
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != folder {
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

// escapeGlob makes a path match itself alone.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// Claim is the folder of a claim as people see it.
type Claim struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Path is where it lies on the host.
	Path string `json:"path"`
	// Users are the UIDs of the pods that use it.
	Users []types.UID `json:"users,omitempty"`
}

// ListClaims lists the folders of all claims by namespace and name, whether or
// not a manifest still declares them.
func (v *Volumes) ListClaims() ([]Claim, error) {
	namespaces, err := os.ReadDir(v.Claims)
	if err != nil {
		return nil, ignoreGone(err)
	}
	var claims []Claim
	for _, namespace := range namespaces {
		folders, err := os.ReadDir(filepath.Join(v.Claims, namespace.Name()))
		if err != nil {
			return nil, err
		}
		for _, folder := range folders {
			path, err := v.claimDir(namespace.Name(), folder.Name())
			if err != nil || !folder.IsDir() {
				continue
			}
			users, err := v.claimUsers(path)
			if err != nil {
				return nil, err
			}
			claims = append(claims, Claim{Namespace: namespace.Name(), Name: folder.Name(), Path: path, Users: users})
		}
	}
	return claims, nil
}

// Why a claim's folder is not removed.
var (
	ErrNoClaim    = errors.New("there is no such persistent volume")
	ErrClaimInUse = errors.New("the persistent volume is in use")
)

// RemoveClaim deletes the folder of a claim with all that is in it. It is an
// error if a pod uses it, and if something is mounted in it.
func (v *Volumes) RemoveClaim(namespace, name string) error {
	folder, err := v.claimDir(namespace, name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoClaim, err)
	}
	v.claims.Lock()
	defer v.claims.Unlock()
	if _, err := os.Lstat(folder); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s/%s", ErrNoClaim, namespace, name)
	}
	users, err := v.claimUsers(folder)
	if err != nil {
		return err
	}
	if len(users) > 0 {
		return fmt.Errorf("%w: %s/%s is used by the pods with UID %v; end them first", ErrClaimInUse, namespace, name, users)
	}
	if err := removeTree(folder); err != nil {
		return fmt.Errorf("cannot remove persistent volume %s/%s: %w", namespace, name, err)
	}
	return nil
}
