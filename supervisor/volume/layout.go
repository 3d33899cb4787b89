package volume

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Layout of a pod's directory, which is the kubelet's. A volume is in
// volumes/PLUGIN/NAME, a subpath of it that a container mounts in
// volume-subpaths/NAME/CONTAINER/INDEX. A mount at such a path is this package's.
const (
	volumesDir  = "volumes"
	subPathsDir = "volume-subpaths"

	pluginEmptyDir  = "kubernetes.io~empty-dir"
	pluginConfigMap = "kubernetes.io~configmap"
	pluginSecret    = "kubernetes.io~secret"
	pluginDownward  = "kubernetes.io~downward-api"
	pluginProjected = "kubernetes.io~projected"
	pluginNFS       = "kubernetes.io~nfs"
	pluginClaim     = "kubernetes.io~local-volume"
	pluginCSI       = "kubernetes.io~csi"

	// pluginBound has links that record which pod uses a claim that is bound to a
	// PersistentVolume.
	pluginBound = "podstead.io~claim"

	podMode = 0o750
)

// Names of directories below the root are checked here again, although they were
// validated before: the directories are written and deleted as root.
var (
	validUID  = regexp.MustCompile(`^[A-Za-z0-9-]{1,63}$`)
	validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	// validClaim matches DNS subdomains, which names of claims are. It is large, and many nodes
	// have no claims, so that its first use compiles it.
	validClaim = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	})
)

// PodDir returns the directory of a pod. An invalid UID is an error.
func (v *Volumes) PodDir(uid types.UID) (string, error) {
	if !validUID.MatchString(string(uid)) {
		return "", fmt.Errorf("invalid UID %q: must be 1 to 63 of A-Z, a-z, 0-9 and -", uid)
	}
	return filepath.Join(v.Root, string(uid)), nil
}

// plugin returns the directory for a type of volume, empty for types without one.
func plugin(src *v1.VolumeSource) string {
	switch {
	case src.EmptyDir != nil:
		return pluginEmptyDir
	case src.ConfigMap != nil:
		return pluginConfigMap
	case src.Secret != nil:
		return pluginSecret
	case src.DownwardAPI != nil:
		return pluginDownward
	case src.Projected != nil:
		return pluginProjected
	case src.NFS != nil:
		return pluginNFS
	case src.PersistentVolumeClaim != nil, src.Ephemeral != nil:
		return pluginClaim
	case src.CSI != nil:
		return pluginCSI
	}
	return ""
}

// isOwnMount reports whether a mount at a path, relative to the pod's directory, is
// one that this package makes. Mounts below those are not.
func isOwnMount(rel string) bool {
	for _, pattern := range []string{
		volumesDir + "/kubernetes.io~*/*",
		subPathsDir + "/*/*/*",
	} {
		if match, err := filepath.Match(pattern, rel); err == nil && match {
			return true
		}
	}
	return false
}

var errVolumeName = errors.New("invalid name")
