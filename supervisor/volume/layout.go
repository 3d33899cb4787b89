package volume

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Layout of a pod's folder, as the kubelet's. A volume lies in
// volumes/PLUGIN/NAME, a part of it that a container mounts in
// volume-subpaths/NAME/CONTAINER/INDEX. What is mounted at such a path is ours.
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

	podMode = 0o750
)

// What names a folder below the root is checked here once more, whoever
// validated it before: the folders are written and deleted as root.
var (
	validUID  = regexp.MustCompile(`^[A-Za-z0-9-]{1,63}$`)
	validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	// validClaim is a DNS subdomain, as names of claims are.
	validClaim = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
)

// PodDir is the folder of a pod. An invalid UID is an error.
func (v *Volumes) PodDir(uid types.UID) (string, error) {
	if !validUID.MatchString(string(uid)) {
		return "", fmt.Errorf("%q is no valid UID: 1 to 63 of A-Z, a-z, 0-9 and - are", uid)
	}
	return filepath.Join(v.Root, string(uid)), nil
}

// plugin is the folder for a kind of volume, empty for kinds that have none.
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
	case src.PersistentVolumeClaim != nil:
		return pluginClaim
	}
	return ""
}

// ours reports whether a mount at a path, relative to the pod's folder, is one
// that this package makes. Mounts below those are somebody else's.
func ours(rel string) bool {
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

var errVolumeName = errors.New("its name is no valid one")
