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
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/csivolume"
	"github.com/podstead/podstead/internal/fsgroup"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/manifest"
)

// Volumes manages the volumes of all pods below one root.
type Volumes struct {
	// Root holds a directory for each pod, named by its UID.
	Root string
	// Claims holds the directories of PersistentVolumeClaims by namespace and name.
	Claims string

	// Bindings is the file that records which claims are bound to PersistentVolumes.
	Bindings string
	// Disk is where it is.
	Disk statefile.Disk
	// OnNode reports whether this node matches the affinity of a PersistentVolume; nil
	// matches all.
	OnNode func(*v1.NodeSelector) bool
	// CSI publishes volumes of CSI drivers; nil has none.
	CSI CSI
	// PodName returns the name of a pod for messages, empty if it is not known; nil knows none.
	PodName func(types.UID) string
	// Quotas limits the size of volumes; nil does not.
	Quotas Quotas

	host
	// claims guards which pod uses which claim, and the bindings. It is not held while
	// a disk is used that may hang.
	claims sync.Mutex
	// opening has a mutex for each block device, held while it is opened.
	opening  sync.Map
	bindings bindings
	// quotaLocks has a mutex for each directory whose size is being limited.
	quotaLocks sync.Map
	// claimLocks has the mutexes of lockClaim.
	claimLocks sync.Map
	// waits has why pods of a cluster wait for their claims.
	waits claimWaits
}

// host is what tests replace of the host; nil stands for the host's own.
type host struct {
	// fileLabel returns the label that the SELinux policy has for files of containers.
	fileLabel func() string
	// mounts stands for /proc/self/mountinfo.
	mounts func() ([]*mountinfo.Info, error)
	// openExclusive opens a block device that nothing else may use.
	openExclusive func(device string) error
	// removeVolumeTree deletes the directory of a claim.
	removeVolumeTree func(dir string) error
}

// Objects holds the objects that volumes refer to, by namespace and name.
type Objects interface {
	ConfigMap(namespace, name string) (*v1.ConfigMap, bool)
	Secret(namespace, name string) (*v1.Secret, bool)
	Claim(namespace, name string) (*v1.PersistentVolumeClaim, bool)
	StorageObjects
	// Missing explains why an object was not found, and reports what to do.
	Missing(ref manifest.ObjectRef) (what, remedy string)
}

// Cluster reports what a cluster has decided about the volumes of its pods. None of its methods waits for an API
// server: an error reports what is awaited, and the pod is synced again when that has changed. Implemented by
// cluster.Objects.
type Cluster interface {
	// BoundClaim returns the claim of a volume and the PersistentVolume to which the cluster has bound
	// it. The error is why no pod may start to use them; a pod that uses them already keeps what is
	// returned, nil if it is not known.
	BoundClaim(pod *v1.Pod, volume *v1.Volume) (*v1.PersistentVolumeClaim, *v1.PersistentVolume, error)
	// CSIDriver returns what the CSIDriver object of a driver reports.
	CSIDriver(name string) (csivolume.Driver, error)
	// CSIAttachment returns what the controller that has attached a volume to this node tells the driver;
	// nil if the driver needs none.
	CSIAttachment(pod *v1.Pod, volume *v1.PersistentVolume) (map[string]string, error)
	// CSIExpansion returns the capacity in bytes to which the driver of a bound volume is to expand it on this
	// node, if it has not done so; 0 is none. CSIExpanded reports how that ended.
	CSIExpansion(pod *v1.Pod, volume *v1.Volume) int64
	CSIExpanded(pod *v1.Pod, volume *v1.Volume, bytes int64, failure error)
	// CSITokens returns tokens of the pod's service account for a driver, in the kubelet's form.
	CSITokens(pod *v1.Pod, requests []storagev1.TokenRequest) (string, error)
}

// Request is a pod whose volumes are to be set up, with what they are made from.
type Request struct {
	Pod     *v1.Pod
	Objects Objects
	// Downward returns the content of a file of a downwardAPI volume.
	Downward func(item *v1.DownwardAPIVolumeFile) (string, error)
	// Token returns a token for a projected volume; nil if there are none.
	Token func(projection *v1.ServiceAccountTokenProjection) (string, error)
	// Cluster is the cluster that has bound the pod to this node; nil without one.
	Cluster Cluster
	// Memory is the allocatable memory of the node in bytes; 0 is not known.
	Memory int64
}

// Mounted is a volume that is ready for containers.
type Mounted struct {
	// Path is the directory, file or block device on the host; empty for an image.
	Path string
	// Device: Path is a block device for volumeDevices.
	Device bool
	// Image is the image that the runtime mounts.
	Image *v1.ImageVolumeSource
	// ReadOnly applies to every mount of the volume.
	ReadOnly bool
	// Complete: the volume holds all that it can hold, so that no directory is
	// created in place of a missing subpath.
	Complete bool
	// Relabel: the volume is the pod's own, and gets its SELinux label.
	Relabel bool
	// Group is a supplemental group that the pod's containers need to use it; nil is none.
	Group *int64
}

// Result is the result of Setup.
type Result struct {
	// Volumes holds those that a container mounts, by name.
	Volumes map[string]Mounted
	// Stale names volumes that keep their content because an object that they were
	// made from no longer exists.
	Stale []error
	// Unenforced reports of which volumes the size is not enforced, although the file system has
	// quotas.
	Unenforced []error
	// Expanded reports which volumes were expanded, and Unexpanded which could not be, and why.
	Expanded   []string
	Unexpanded []error
}

// setup is one call of Setup.
type setup struct {
	*Volumes
	req   *Request
	group fsgroup.Group
	stale []error
	// unenforced, expanded and unexpanded are those of the result.
	unenforced []error
	expanded   []string
	unexpanded []error
}

// Setup creates the volumes that a container of the pod mounts, and updates the files
// of existing ones. It can be repeated: it changes nothing else that exists. With an
// error, the result has the volumes that could be set up. The error is ErrMissing if
// an object or key does not exist.
func (v *Volumes) Setup(ctx context.Context, req *Request) (Result, error) {
	pod := req.Pod
	dir, err := v.PodDir(pod.UID)
	if err != nil {
		return Result{}, err
	}
	if err := os.MkdirAll(dir, podMode); err != nil {
		return Result{}, fmt.Errorf("failed to create the pod's directory: %w", err)
	}
	s := &setup{Volumes: v, req: req, group: groupOf(pod)}
	result := Result{Volumes: map[string]Mounted{}}
	// Try all of them, so that the user sees all that is missing at once.
	var errs []error
	for i := range pod.Spec.Volumes {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		vol := &pod.Spec.Volumes[i]
		if !used(pod, vol.Name) {
			continue
		}
		before := len(s.stale)
		m, err := s.setupVolume(ctx, dir, vol)
		if err != nil {
			errs = append(errs, setUpFailed(vol.Name, err))
			continue
		}
		for _, stale := range s.stale[before:] {
			result.Stale = append(result.Stale, setUpFailed(vol.Name, fmt.Errorf("the volume keeps its content: %w", stale)))
		}
		result.Volumes[vol.Name] = m
	}
	result.Unenforced, result.Expanded, result.Unexpanded = s.unenforced, s.expanded, s.unexpanded
	return result, joinErrors(errs)
}

// setUpFailed begins like the kubelet's message, which other tools search for.
func setUpFailed(volume string, err error) error {
	return fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", volume, err)
}

// joinErrors returns one error with all messages in one line.
func joinErrors(errs []error) (err error) {
	for _, e := range errs {
		if err != nil {
			e = fmt.Errorf("%w; %w", err, e)
		}
		err = e
	}
	return err
}

// setupVolume sets up one volume.
func (s *setup) setupVolume(ctx context.Context, dir string, vol *v1.Volume) (Mounted, error) {
	if !validName.MatchString(vol.Name) {
		return Mounted{}, errVolumeName
	}
	src := &vol.VolumeSource
	path := filepath.Join(dir, volumesDir, plugin(src), vol.Name)
	switch {
	case src.EmptyDir != nil:
		return Mounted{Path: path, Relabel: true}, s.setupEmptyDir(ctx, path, vol)
	case src.HostPath != nil:
		path, err := setupHostPath(src.HostPath)
		return Mounted{Path: path}, err
	case src.ConfigMap != nil, src.Secret != nil, src.DownwardAPI != nil, src.Projected != nil:
		return Mounted{Path: path, ReadOnly: true, Complete: !allowsMissing(src), Relabel: true}, s.setupFiles(ctx, path, src)
	case podinfo.ClaimOf(s.req.Pod, vol) != "" && s.req.Cluster != nil:
		return s.setupClusterClaim(ctx, dir, vol)
	case src.PersistentVolumeClaim != nil:
		return s.setupClaim(ctx, dir, vol)
	case src.NFS != nil:
		return Mounted{Path: path, ReadOnly: src.NFS.ReadOnly}, s.setupNFS(ctx, path, src.NFS, nil)
	case src.Image != nil:
		return Mounted{Image: src.Image, ReadOnly: true}, nil
	case src.CSI != nil:
		return s.setupInlineCSI(ctx, vol)
	}
	return Mounted{}, errors.New("unsupported volume type")
}

// setupFiles creates or updates a volume of files. An existing one keeps its content
// if an object that it was made from no longer exists.
func (s *setup) setupFiles(ctx context.Context, path string, src *v1.VolumeSource) error {
	files, err := s.resolvePayload(src)
	if err != nil {
		if _, made := os.Lstat(filepath.Join(path, dataLink)); made == nil {
			s.addStale(err)
			return nil
		}
		return err
	}
	// Files of a ConfigMap are not secret and are stored on disk, as by the kubelet.
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
	_, err = writeFiles(ctx, path, files, s.group)
	return err
}

// addStale records why a volume keeps its content.
func (s *setup) addStale(err error) { s.stale = append(s.stale, err) }

// used reports whether a container mounts the volume, or has it as a device. Like the kubelet,
// this package sets up no others.
func used(pod *v1.Pod, name string) bool {
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		if mountsVolume(c, name) || opensDevice(c, name) {
			return true
		}
	}
	return false
}

// Orphans returns the UIDs of the pods that have a directory or a CSI volume here and that keep
// does not report, and the names of entries that belong to no pod.
func (v *Volumes) Orphans(keep func(types.UID) bool) (uids []types.UID, unknown []string, err error) {
	if v.CSI != nil {
		var users []types.UID
		users, err = v.CSI.Pods()
		uids = slices.DeleteFunc(users, keep)
	}
	entries, readErr := os.ReadDir(v.Root)
	if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
		return uids, nil, errors.Join(err, fmt.Errorf("failed to list the pods directory: %w", readErr))
	}
	for _, e := range entries {
		uid := types.UID(e.Name())
		switch {
		case !e.IsDir() || !validUID.MatchString(e.Name()):
			unknown = append(unknown, e.Name())
		case !keep(uid) && !slices.Contains(uids, uid):
			uids = append(uids, uid)
		}
	}
	return uids, unknown, err
}
