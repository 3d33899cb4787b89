package volume

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/volume/binding"
)

// ClusterClaim is a claim of a cluster that pods use on this node, or wait for. What is not known of it yet is
// empty, also the PersistentVolume.
type ClusterClaim struct {
	Claim
	// Requested is the size that the claim requests, as in its object; empty if it is not known.
	Requested string
	// Waiting are the pods that cannot use it, or cannot start another container with it.
	Waiting []ClaimWait
}

// ClaimWait is why a pod waits for a claim, in the words of its event.
type ClaimWait struct {
	Pod    types.UID
	Reason string
}

// claimWaits has why pods of a cluster wait for their claims, as the last setup of their volumes found. Only the
// setup knows: the cluster may have bound a claim whose disk is missing, or whose driver is absent.
type claimWaits struct {
	mu      sync.Mutex
	reasons map[types.UID]map[string]string // by pod and name of its volume
}

// set takes the result of the setup of a pod's volume. nil is success.
func (w *claimWaits) set(pod types.UID, volume string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		delete(w.reasons[pod], volume)
		if len(w.reasons[pod]) == 0 {
			delete(w.reasons, pod)
		}
		return
	}
	if w.reasons == nil {
		w.reasons = map[types.UID]map[string]string{}
	}
	if w.reasons[pod] == nil {
		w.reasons[pod] = map[string]string{}
	}
	w.reasons[pod][volume] = err.Error()
}

// forget drops what is known of a pod that ends.
func (w *claimWaits) forget(pod types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.reasons, pod)
}

func (w *claimWaits) reasonOf(pod types.UID, volume string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reasons[pod][volume]
}

// ListClusterClaims lists the claims of pods of a cluster, by namespace and name. A claim of the same name in a
// manifest is another one.
func (v *Volumes) ListClusterClaims(pods []*v1.Pod, cluster Cluster) []ClusterClaim {
	var claims []ClusterClaim
	for _, pod := range pods {
		for i := range pod.Spec.Volumes {
			vol := &pod.Spec.Volumes[i]
			name := podinfo.ClaimOf(pod, vol)
			if name == "" || !used(pod, vol.Name) {
				continue
			}
			found := v.clusterClaimOf(pod, vol, cluster)
			if found == nil {
				continue
			}
			at := slices.IndexFunc(claims, func(c ClusterClaim) bool { return c.Namespace == pod.Namespace && c.Name == name })
			if at < 0 {
				found.Namespace, found.Name = pod.Namespace, name
				claims = append(claims, *found)
				continue
			}
			claims[at].add(found)
		}
	}
	slices.SortFunc(claims, func(a, b ClusterClaim) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return claims
}

// clusterClaimOf returns what one pod sees of a claim; nil if it ends and does not use it.
func (v *Volumes) clusterClaimOf(pod *v1.Pod, vol *v1.Volume, cluster Cluster) *ClusterClaim {
	claim, volume, failure := cluster.BoundClaim(pod, vol)
	c := &ClusterClaim{Claim: Claim{Volume: volume, MountPath: v.PodClaimPath(pod.UID, vol.Name)}}
	if claim != nil {
		if size, ok := claim.Spec.Resources.Requests[v1.ResourceStorage]; ok {
			c.Requested = size.String()
		}
	}
	link := filepath.Join(v.Root, string(pod.UID), volumesDir, pluginBound, vol.Name)
	if _, err := os.Lstat(link); err == nil {
		c.Users = []types.UID{pod.UID}
	}
	ends := pod.DeletionTimestamp != nil
	reason := v.waits.reasonOf(pod.UID, vol.Name)
	switch {
	case ends && c.Users == nil:
		return nil
	case ends:
	case reason != "":
		c.Waiting = []ClaimWait{{pod.UID, reason}}
	case failure != nil && c.Users == nil:
		c.Waiting = []ClaimWait{{pod.UID, failure.Error()}}
	}
	switch {
	case volume == nil:
		c.Path = c.MountPath // of a pod that runs, while the API server has not responded
	case c.Users != nil && volume.Spec.Local != nil && binding.IsBlock(volume.Spec.VolumeMode):
		c.Path, c.MountPath = volume.Spec.Local.Path, volume.Spec.Local.Path
	default:
		c.Path = hostPathOf(volume)
	}
	return c
}

// add adds what another pod sees of the claim, or the same pod with another volume. What a pod uses counts more
// than what another one waits for: the claim may have been deleted and created again in the meantime.
func (c *ClusterClaim) add(other *ClusterClaim) {
	if c.Volume == nil || c.Users == nil && other.Users != nil && other.Volume != nil {
		c.Volume, c.Path, c.Requested = other.Volume, cmp.Or(other.Path, c.Path), cmp.Or(other.Requested, c.Requested)
	}
	c.MountPath = cmp.Or(c.MountPath, other.MountPath)
	for _, uid := range other.Users {
		if !slices.Contains(c.Users, uid) {
			c.Users = append(c.Users, uid)
		}
	}
	for _, wait := range other.Waiting {
		if !slices.Contains(c.Waiting, wait) {
			c.Waiting = append(c.Waiting, wait)
		}
	}
}
