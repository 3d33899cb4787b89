package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/moby/sys/mountinfo"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/manifest"
)

// Volumes are the volumes of all pods below one root.
type Volumes struct {
	// Root holds a folder for each pod, named by its UID.
	Root string
	// Claims holds the folders of PersistentVolumeClaims by namespace and name.
	Claims string

	// mounts replaces /proc/self/mountinfo in tests.
	mounts func() ([]*mountinfo.Info, error)
	// claims guards who uses which claim.
	claims sync.Mutex
}

// Objects are what volumes refer to, by namespace and name.
type Objects interface {
	ConfigMap(namespace, name string) (*v1.ConfigMap, bool)
	Secret(namespace, name string) (*v1.Secret, bool)
	Claim(namespace, name string) (*v1.PersistentVolumeClaim, bool)
	// Missing says what to do about an object that was not found.
	Missing(ref manifest.ObjectRef) (what, remedy string)
}

// Request is a pod whose volumes are to be made, and what they are made of.
type Request struct {
	Pod     *v1.Pod
	Objects Objects
	// Downward is the content of a file of a downwardAPI volume.
	Downward func(item *v1.DownwardAPIVolumeFile) (string, error)
	// Token is a token for a projected volume; nil if none can be had.
	Token func(of *v1.ServiceAccountTokenProjection) (string, error)
	// Memory is how much of the node's memory pods may have, in bytes; 0 is
	// not known.
	Memory int64
}

// Mounted is a volume that is ready for containers.
type Mounted struct {
	// Path is the folder or file on the host; empty for an image.
	Path string
	// Image is the image that the runtime mounts.
	Image *v1.ImageVolumeSource
	// ReadOnly holds for every mount of it.
	ReadOnly bool
	// Complete: it holds all that it may hold, so that no folder is made in
	// place of a part that is missing.
	Complete bool
	// Relabel: it is the pod's own, and gets its SELinux label.
	Relabel bool
}

// Result is what Setup made.
type Result struct {
	// Volumes are those that a container mounts, by name.
	Volumes map[string]Mounted
	// Kept tells of what is missing now that was there when the volumes were
	// made. They go on as they were.
	Kept []error
}

// setup is one call of Setup.
type setup struct {
	*Volumes
	req   *Request
	owner owner
	kept  []error
}

// Setup makes the volumes that a container of the pod mounts, and brings the
// files of those that are there up to date. It can be repeated: all else that
// is there stays as it is. An error that is ErrMissing tells what has to come
// first; the result has the volumes that could be made.
func (v *Volumes) Setup(ctx context.Context, req *Request) (Result, error) {
	pod := req.Pod
	dir, err := v.PodDir(pod.UID)
	if err != nil {
		return Result{}, err
	}
	if err := os.MkdirAll(dir, podMode); err != nil {
		return Result{}, fmt.Errorf("cannot make the folder of the pod: %w", err)
	}
	s := &setup{Volumes: v, req: req, owner: ownerOf(pod)}
	result := Result{Volumes: map[string]Mounted{}}
	// All are tried, so that a person learns of all that is missing at once.
	var errs []error
	for i := range pod.Spec.Volumes {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		vol := &pod.Spec.Volumes[i]
		if !mounted(pod, vol.Name) {
			continue
		}
		before := len(s.kept)
		m, err := s.one(ctx, dir, vol)
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot set up volume %q: %w", vol.Name, err))
			continue
		}
		for _, kept := range s.kept[before:] {
			result.Kept = append(result.Kept, fmt.Errorf("volume %q stays as it was: %w", vol.Name, kept))
		}
		result.Volumes[vol.Name] = m
	}
	return result, joined(errs)
}

// joined is one error of one line.
func joined(errs []error) (err error) {
	for _, e := range errs {
		if err != nil {
			e = fmt.Errorf("%w; %w", err, e)
		}
		err = e
	}
	return err
}

// one makes one volume.
func (s *setup) one(ctx context.Context, dir string, vol *v1.Volume) (Mounted, error) {
	if !validName.MatchString(vol.Name) {
		return Mounted{}, errVolumeName
	}
	src := &vol.VolumeSource
	path := filepath.Join(dir, volumesDir, plugin(src), vol.Name)
	switch {
	case src.EmptyDir != nil:
		return Mounted{Path: path, Relabel: true}, s.setupEmptyDir(path, src.EmptyDir)
	case src.HostPath != nil:
		path, err := setupHostPath(src.HostPath)
		return Mounted{Path: path}, err
	case src.ConfigMap != nil, src.Secret != nil, src.DownwardAPI != nil, src.Projected != nil:
		return Mounted{Path: path, ReadOnly: true, Complete: !mayLack(src), Relabel: true}, s.setupFiles(path, src)
	case src.PersistentVolumeClaim != nil:
		return s.setupClaim(path, src.PersistentVolumeClaim)
	case src.NFS != nil:
		return Mounted{Path: path, ReadOnly: src.NFS.ReadOnly}, s.setupNFS(ctx, path, src.NFS)
	case src.Image != nil:
		return Mounted{Image: src.Image, ReadOnly: true}, nil
	}
	return Mounted{}, errors.New("volumes of its type are not supported")
}

// setupFiles makes a volume of files, or brings it up to date. One that was
// made goes on with what it has when an object it was made of is gone.
func (s *setup) setupFiles(path string, src *v1.VolumeSource) error {
	files, err := s.payloadOf(src)
	if err != nil {
		if _, made := os.Lstat(filepath.Join(path, dataLink)); made == nil {
			s.keep(err)
			return nil
		}
		return err
	}
	// Files of a ConfigMap are no secrets and lie on disk, as the kubelet's.
	if src.ConfigMap != nil {
		err = os.MkdirAll(path, podMode)
		if err == nil {
			err = os.Chmod(path, filesMode)
		}
	} else {
		_, err = mountTmpfs(path, filesMode, 0)
	}
	if err != nil {
		return err
	}
	_, err = writeFiles(path, files, s.owner)
	return err
}

// keep notes why something stays as it is.
func (s *setup) keep(err error) { s.kept = append(s.kept, err) }

// mounted reports whether a container uses the volume; the kubelet, too, sets
// up no other.
func mounted(pod *v1.Pod, name string) bool {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if slices.ContainsFunc(list[i].VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == name }) {
				return true
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if slices.ContainsFunc(pod.Spec.EphemeralContainers[i].VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == name }) {
			return true
		}
	}
	return false
}

// Orphans are the pods with a folder here that keep does not want, and the
// names of entries that are no pod's.
func (v *Volumes) Orphans(keep func(types.UID) bool) (uids []types.UID, strangers []string, err error) {
	entries, err := os.ReadDir(v.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot list the pods' folders: %w", err)
	}
	for _, e := range entries {
		uid := types.UID(e.Name())
		switch {
		case !e.IsDir() || !validUID.MatchString(e.Name()):
			strangers = append(strangers, e.Name())
		case !keep(uid):
			uids = append(uids, uid)
		}
	}
	return uids, strangers, nil
}
