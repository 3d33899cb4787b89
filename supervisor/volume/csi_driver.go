package volume

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podstead/podstead/internal/csivolume"
)

// keyTokens is the key of the attribute or of the secret with the tokens of the pod's service account, the
// kubelet's.
const keyTokens = "csi.storage.k8s.io/serviceAccount.tokens"

// driverOf returns what is known of the driver of a volume. A standalone node has no CSIDriver objects.
func (s *setup) driverOf(v *csivolume.Volume) (csivolume.Driver, error) {
	if s.req.Cluster == nil {
		return csivolume.Driver{PodInfo: v.Ephemeral, Persistent: true, Ephemeral: true}, nil
	}
	return s.req.Cluster.CSIDriver(v.Driver)
}

// applyDriver makes a volume what its driver wants. What is awaited of the cluster keeps only a volume
// waiting that is not published. persistent is nil for a volume that is declared in the pod.
func (s *setup) applyDriver(v *csivolume.Volume, persistent *v1.PersistentVolume) {
	driver, err := s.driverOf(v)
	v.Republish = err == nil && driver.Republish
	if driver.PodInfo {
		v.PodContext = s.podAttributes(v.Ephemeral)
	}
	if !v.Block {
		v.Group = s.group
	}
	v.SetGroup = v.Group.GID != nil && !v.ReadOnly && ownsFiles(driver.GroupPolicy, v, persistent)
	if driver.SELinuxMount && persistent != nil && !v.Block {
		if option := s.contextOption(v.Name, persistent); option != "" {
			v.MountOptions = append(slices.Clone(v.MountOptions), option)
		}
	}
	if err == nil {
		err = s.applyCluster(&driver, v, persistent)
	}
	if err != nil {
		v.PublishBlocked = err
	}
}

// applyCluster adds what the cluster has for the driver: how the volume is attached, and tokens. The error is what is
// awaited, or why the driver cannot be used.
func (s *setup) applyCluster(driver *csivolume.Driver, v *csivolume.Volume,
	persistent *v1.PersistentVolume) (err error) {
	if err := checkLifecycle(driver, v); err != nil {
		return err
	}
	if driver.Attach && persistent != nil {
		if v.AttachContext, err = s.req.Cluster.CSIAttachment(s.req.Pod, persistent); err != nil {
			return err
		}
	}
	if len(driver.Tokens) == 0 {
		return nil
	}
	tokens, err := s.req.Cluster.CSITokens(s.req.Pod, driver.Tokens)
	if err != nil {
		return fmt.Errorf("tokens for CSI driver %s: %w", v.Driver, err)
	}
	if driver.TokensInSecrets {
		v.Secrets.Publish = withValue(v.Secrets.Publish, keyTokens, tokens)
	} else {
		v.PodContext = withValue(v.PodContext, keyTokens, tokens)
	}
	return nil
}

// withValue returns a copy of a map that has another value.
func withValue(values map[string]string, key, value string) map[string]string {
	all := maps.Clone(values)
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	return all
}

// checkLifecycle returns an error if a driver does not support volumes of that kind.
func checkLifecycle(driver *csivolume.Driver, v *csivolume.Volume) error {
	switch {
	case v.Ephemeral && !driver.Ephemeral:
		return fmt.Errorf("CSI driver %s does not support the field csi of a pod's volume: spec.volumeLifecycleModes of "+
			"its CSIDriver object does not have %s; use a PersistentVolumeClaim",
			v.Driver, storagev1.VolumeLifecycleEphemeral)
	case !v.Ephemeral && !driver.Persistent:
		return fmt.Errorf("CSI driver %s does not support PersistentVolumes: spec.volumeLifecycleModes of its CSIDriver "+
			"object does not have %s; use the field csi of the pod's volume",
			v.Driver, storagev1.VolumeLifecyclePersistent)
	}
	return nil
}

// ownsFiles reports whether the files of a volume get the pod's group, if the driver does not do that. It
// is the kubelet's rule; a volume that is declared in a pod is for one node.
func ownsFiles(policy storagev1.FSGroupPolicy, v *csivolume.Volume, persistent *v1.PersistentVolume) bool {
	switch policy {
	case storagev1.NoneFSGroupPolicy:
		return false
	case storagev1.FileFSGroupPolicy:
		return true
	}
	modes := []v1.PersistentVolumeAccessMode{v.AccessMode}
	if persistent != nil {
		modes = persistent.Spec.AccessModes
	}
	return v.FSType != "" && (slices.Contains(modes, v1.ReadWriteOnce) || slices.Contains(modes, v1.ReadWriteOncePod))
}
