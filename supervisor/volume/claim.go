package volume

import (
	"cmp"
	"context"
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

	"github.com/podstead/podstead/internal/fsgroup"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/volume/binding"
)

// setupClaim gives a pod the volume of a claim, which outlives every pod: the
// PersistentVolume to which it is bound, or else a directory that is created at first
// use. A link in the pod's directory records that the pod uses the claim.
func (s *setup) setupClaim(ctx context.Context, podDir string, vol *v1.Volume) (Mounted, error) {
	namespace, src := s.req.Pod.Namespace, vol.PersistentVolumeClaim
	dir, err := s.claimDir(namespace, src.ClaimName)
	if err != nil {
		return Mounted{}, err
	}
	c := &claimVolume{podDir: podDir, name: vol.Name, src: src, dir: dir}
	claim, known := s.req.Objects.Claim(namespace, src.ClaimName)
	if !known {
		return s.setupUndeclared(ctx, c)
	}
	mounted, err := s.setupDeclared(ctx, c, claim)
	if err != nil {
		return Mounted{}, fmt.Errorf("PersistentVolumeClaim %s/%s: %w", namespace, src.ClaimName, err)
	}
	return mounted, nil
}

// setupUndeclared lets a pod keep the volume of a claim that no manifest declares any
// more.
func (s *setup) setupUndeclared(ctx context.Context, c *claimVolume) (Mounted, error) {
	namespace, name := s.req.Pod.Namespace, c.src.ClaimName
	ref := manifest.ObjectRef{Kind: manifest.KindClaim, Namespace: namespace, Name: name}
	missing := s.missing(ref, false)
	if linksTo(c.path(pluginClaim), c.dir) {
		s.addStale(missing)
		return Mounted{Path: c.dir, ReadOnly: c.src.ReadOnly, Relabel: true}, nil
	}
	if !linksTo(c.usersLink(), c.dir) {
		return Mounted{}, missing
	}
	s.claims.Lock()
	bound, err := s.bindingOf(namespace, name)
	s.claims.Unlock()
	if err != nil {
		return Mounted{}, err
	}
	if bound == nil {
		return Mounted{}, missing
	}
	s.addStale(missing)
	return s.setupBound(ctx, c, bound, nil, true)
}

// setupDeclared gives a pod the volume of a claim that a manifest declares.
func (s *setup) setupDeclared(ctx context.Context, c *claimVolume, claim *v1.PersistentVolumeClaim) (Mounted, error) {
	if err := checkClaim(claim); err != nil {
		return Mounted{}, err
	}
	_, err := os.Lstat(c.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Mounted{}, err
	}
	bound, failure := s.bind(claim, err == nil)
	if failure != nil {
		return Mounted{}, failure
	}
	if bound != nil {
		return s.setupBound(ctx, c, bound, claim, linksTo(c.usersLink(), c.dir))
	}
	if binding.IsBlock(claim.Spec.VolumeMode) {
		return Mounted{}, fmt.Errorf("spec.volumeMode is Block, and the claim is bound to its directory %s already; remove "+
			"the field, or copy the data and run: podstead volumes rm %s/%s",
			c.dir, claim.Namespace, claim.Name)
	}
	if err := s.checkMode(c.name, v1.PersistentVolumeFilesystem); err != nil {
		return Mounted{}, err
	}
	mounted := Mounted{Path: c.dir, ReadOnly: c.src.ReadOnly || !writable(claim), Relabel: true}
	link := c.path(pluginClaim)
	if linksTo(link, c.dir) {
		s.limitSize(ctx, c, c.dir, claim)
		return mounted, nil
	}
	if err == nil {
		s.reportOwnDirectory(c.dir, claim)
	}
	if err := s.createClaim(c.dir, claim); err != nil {
		return Mounted{}, err
	}
	s.limitSize(ctx, c, c.dir, claim)
	if err := s.group.Apply(ctx, c.dir, fsgroup.ReadWrite); err != nil {
		return Mounted{}, err
	}
	return mounted, s.linkClaim(link, c.dir, claim)
}

// linksTo reports whether a link has this target.
func linksTo(link, target string) bool {
	to, err := os.Readlink(link)
	return err == nil && to == target
}

// reportOwnDirectory reports what a claim requests in vain because it is already bound
// to a directory of its own, for example since a version that knew no classes.
func (s *setup) reportOwnDirectory(dir string, claim *v1.PersistentVolumeClaim) {
	spec := &claim.Spec
	for _, f := range []struct {
		set  bool
		name string
	}{
		{spec.StorageClassName != nil && *spec.StorageClassName != "", "storageClassName"},
		{spec.VolumeName != "", "volumeName"},
		{spec.Selector != nil, "selector"},
	} {
		if f.set {
			s.addStale(fmt.Errorf("PersistentVolumeClaim %s/%s: spec.%s has no effect, since the claim is bound to its "+
				"directory %s already; "+
				"to bind it again, remove its pods, copy the data, and run: podstead volumes rm %[1]s/%[2]s", claim.Namespace,
				claim.Name, f.name, dir))
		}
	}
}

// claimDir returns the directory of a claim.
func (v *Volumes) claimDir(namespace, name string) (string, error) {
	if v.Claims == "" {
		return "", errors.New("no directory for persistent volumes is configured")
	}
	if !validName.MatchString(namespace) || !validClaim().MatchString(name) {
		return "", fmt.Errorf("invalid name of a claim: %s/%s", namespace, name)
	}
	return filepath.Join(v.Claims, namespace, name), nil
}

// checkClaim rejects what a directory cannot provide.
func checkClaim(claim *v1.PersistentVolumeClaim) error {
	spec := &claim.Spec
	switch {
	case spec.DataSource != nil, spec.DataSourceRef != nil:
		return errors.New("spec.dataSource needs a storage driver; remove the field and copy the data into the claim's " +
			"directory")
	}
	return nil
}

// writable reports whether any access mode of a claim lets a pod write.
func writable(claim *v1.PersistentVolumeClaim) bool {
	modes := claim.Spec.AccessModes
	return len(modes) == 0 || slices.ContainsFunc(modes,
		func(m v1.PersistentVolumeAccessMode) bool { return m != v1.ReadOnlyMany })
}

// createClaim creates the directory of a claim unless it exists, and checks that no
// other pod uses a claim that is for one pod only.
func (s *setup) createClaim(dir string, claim *v1.PersistentVolumeClaim) error {
	defer s.lockClaim(claim.Namespace, claim.Name)()
	s.claims.Lock()
	err := s.checkOwn(dir, claim)
	s.claims.Unlock()
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), claimAboveMode); err != nil {
		return err
	}
	namespace, err := openRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer unix.Close(namespace)
	return makeClaimDir(namespace, dir)
}

// linkClaim records that the pod uses the claim.
func (s *setup) linkClaim(link, dir string, claim *v1.PersistentVolumeClaim) error {
	defer s.lockClaim(claim.Namespace, claim.Name)()
	// The user may have removed it in the meantime.
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	s.claims.Lock()
	defer s.claims.Unlock()
	if err := s.checkOwn(dir, claim); err != nil {
		return err
	}
	return linkTo(link, dir)
}

// checkOwn returns an error if the pod may not use the directory that a claim has of its own. The caller holds claims.
// Bindings that cannot be read keep no pod from it.
func (s *setup) checkOwn(dir string, claim *v1.PersistentVolumeClaim) error {
	if bound, err := s.bindingOf(claim.Namespace, claim.Name); err == nil && bound != nil && bound.Deleting {
		return errVolumeDeleted
	}
	return s.checkExclusive(dir, claim)
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
			return fmt.Errorf("access mode is ReadWriteOncePod, and %s uses it", s.podText(uid))
		}
	}
	return nil
}

// claimLink is a link in the directory of a pod that records that the pod uses a claim.
type claimLink struct {
	pod types.UID
	// volume is the name of the volume in the pod.
	volume string
}

// claimUsers returns the pods that use the directory of a claim.
func (v *Volumes) claimUsers(dir string) ([]types.UID, error) {
	links, err := v.claimLinks(dir)
	return usersOf(links), err
}

func usersOf(links []claimLink) (users []types.UID) {
	for _, link := range links {
		if !slices.Contains(users, link.pod) {
			users = append(users, link.pod)
		}
	}
	return users
}

// claimLinks returns the links to the directory of a claim.
func (v *Volumes) claimLinks(dir string) (found []claimLink, err error) {
	var links []string
	for _, plugin := range []string{pluginClaim, pluginBound} {
		found, err := filepath.Glob(filepath.Join(escapeGlob(v.Root), "*", volumesDir, plugin, "*"))
		if err != nil {
			return nil, err
		}
		links = append(links, found...)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != dir {
			continue
		}
		rel, err := filepath.Rel(v.Root, link)
		if err != nil {
			return nil, err
		}
		uid, _, _ := strings.Cut(rel, "/")
		found = append(found, claimLink{pod: types.UID(uid), volume: filepath.Base(link)})
	}
	return found, nil
}

// escapeGlob returns a glob that matches only the path.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// Claim is the volume of a claim as users see it.
type Claim struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Path is the directory on the host; empty for a volume of a server.
	Path string `json:"path"`
	// MountPath is where the content is on the host: Path, or where the volume of a server is
	// mounted for one of the pods; empty if none uses it.
	MountPath string `json:"-"`
	// Volume is the PersistentVolume to which it is bound; nil for a directory of its own.
	Volume *v1.PersistentVolume `json:"volume,omitempty"`
	// Provisioned: the volume was made for the claim.
	Provisioned bool `json:"provisioned,omitempty"`
	// Users are the UIDs of the pods that use it.
	Users []types.UID `json:"users,omitempty"`
}

// PodClaimPath returns where the content of a claim is on the host as one pod uses it, by the name of the pod's
// volume; empty if the pod does not use it yet, or if it is a block device.
func (v *Volumes) PodClaimPath(uid types.UID, name string) string {
	volumes := filepath.Join(v.Root, string(uid), volumesDir)
	if path, err := os.Readlink(filepath.Join(volumes, pluginClaim, name)); err == nil {
		return path
	}
	path := filepath.Join(volumes, pluginNFS, name)
	if _, err := os.Lstat(path); err != nil {
		return ""
	}
	return path
}

// mountPath returns where the volume of a server or of a CSI driver is mounted for one of the pods; empty if it
// is for none yet.
func (v *Volumes) mountPath(c *Claim, links []claimLink) string {
	for _, link := range links {
		volumes := filepath.Join(v.Root, string(link.pod), volumesDir)
		if c.Volume.Spec.CSI == nil {
			return filepath.Join(volumes, pluginNFS, link.volume)
		}
		if path, err := os.Readlink(filepath.Join(volumes, pluginClaim, link.volume)); err == nil {
			return path // it is published for this pod
		}
	}
	return ""
}

// ListClaims lists the volumes of all claims by namespace and name, including those of
// claims that no manifest declares any more.
func (v *Volumes) ListClaims() ([]Claim, error) {
	directories, err := v.ClaimDirectories()
	if err != nil {
		return nil, err
	}
	var claims []Claim
	for _, d := range directories {
		claims = append(claims, Claim{Namespace: d.Namespace, Name: d.Name, Path: d.Path})
	}
	bound, err := v.ListBindings()
	if err != nil {
		return nil, err
	}
	for i := range bound {
		b := &bound[i]
		c := Claim{Namespace: b.Namespace, Name: b.Claim, Path: hostPathOf(b.Volume), Volume: b.Volume,
			Provisioned: b.Provisioned}
		claims = append(claims, c)
	}
	for i := range claims {
		dir, err := v.claimDir(claims[i].Namespace, claims[i].Name)
		if err != nil {
			return nil, err
		}
		links, err := v.claimLinks(dir)
		if err != nil {
			return nil, err
		}
		claims[i].Users, claims[i].MountPath = usersOf(links), claims[i].Path
		if claims[i].Path == "" {
			claims[i].MountPath = v.mountPath(&claims[i], links)
		}
	}
	slices.SortFunc(claims, func(a, b Claim) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return claims, nil
}

// hostPathOf returns the path of a volume on the host; empty if it has none.
func hostPathOf(volume *v1.PersistentVolume) string {
	switch {
	case volume.Spec.Local != nil:
		return volume.Spec.Local.Path
	case volume.Spec.HostPath != nil:
		return volume.Spec.HostPath.Path
	}
	return ""
}

// ClaimDirectory is the directory of a claim on the host.
type ClaimDirectory struct {
	Namespace, Name, Path string
	// Created is its creation time; zero if the filesystem does not record it.
	Created time.Time
}

// ClaimDirectories lists the claims that are directories of their own, as ListClaims
// does.
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
			list = append(list, ClaimDirectory{Namespace: namespace.Name(), Name: dir.Name(), Path: path,
				Created: creationTime(path)})
		}
	}
	return list, nil
}

// creationTime returns when a file was created; zero if the filesystem does not record it.
func creationTime(path string) time.Time {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st); err != nil ||
		st.Mask&unix.STATX_BTIME == 0 {
		return time.Time{}
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
}

// podText returns how a message names a pod: by its UID if only its directory is left.
func (v *Volumes) podText(uid types.UID) string {
	if v.PodName != nil {
		if name := v.PodName(uid); name != "" {
			return "pod " + name
		}
	}
	return "the pod with UID " + string(uid)
}
