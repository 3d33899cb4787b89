package volumeview

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/supervisor/volume"
	"github.com/podstead/podstead/supervisor/volume/binding"
)

const (
	// volumesAge is the maximum age of the usage that podstead volumes shows, unless it takes long to
	// measure.
	volumesAge = time.Second
	// scrapeWait is how long the metrics and the summary wait for directories that are large; then
	// they have the previous measurement.
	scrapeWait = 2 * time.Second
)

// Usage returns the usage of all volumes, by their path on the host. It waits a short time at most.
func (v *View) Usage(ctx context.Context) usage.ClaimVolumes {
	return v.measure(ctx, v.claims())
}

// InUse returns the claims that pods use and whose usage is known, each once. It waits a short time at most.
func (v *View) InUse(ctx context.Context) (list []usage.Claim) {
	claims := v.claims()
	volumes := v.measure(ctx, claims)
	for i := range claims {
		c := &claims[i]
		if volume := volumes[c.MountPath]; volume != nil && len(c.Users) > 0 {
			list = append(list, usage.Claim{Namespace: c.Namespace, Name: c.Name, ClaimVolume: *volume})
		}
	}
	return addClusterClaims(list, v.Pods.Pods(), v.Pods.PodClaimPath, volumes)
}

// MeasuredClaim is a claim with its usage.
type MeasuredClaim struct {
	Namespace, Name string
	// Path is where the content is on the host.
	Path string
	// Pods are the pods that use it, as namespace/name.
	Pods []string
	usage.ClaimVolume
}

// Measured returns all claims whose usage is known, measured now unless that takes long, until ctx ends.
func (v *View) Measured(ctx context.Context) (list []MeasuredClaim) {
	claims := v.claims()
	described := describedClaims{names: podNames(v.Pods.Pods()), volumes: v.Meter.Claims(ctx, volumesAge, pathsOf(claims))}
	for _, c := range v.Pods.ClusterClaims() {
		claims = append(claims, c.Claim)
	}
	for i := range claims {
		if c := &claims[i]; described.volumes[c.MountPath] != nil {
			list = append(list, MeasuredClaim{Namespace: c.Namespace, Name: c.Name, Path: c.MountPath,
				Pods: described.add(c).Pods, ClaimVolume: *described.volumes[c.MountPath]})
		}
	}
	return list
}

func (v *View) measure(ctx context.Context, claims []volume.Claim) usage.ClaimVolumes {
	ctx, cancel := context.WithTimeout(ctx, scrapeWait)
	defer cancel()
	return v.Meter.Claims(ctx, v.MaxAge, pathsOf(claims))
}

// claims returns all claims of manifests; none if they cannot be read: podstead volumes reports why.
func (v *View) claims() []volume.Claim {
	claims, err := v.Pods.Claims()
	if err != nil {
		v.Log.Debug("Failed to list claims", "err", err)
	}
	return claims
}

// addClusterClaims adds the claims that pods of a cluster use. path returns where the content of a pod's volume
// is. A claim is listed once, also if several pods use it, or if a manifest has a claim of its name: metrics must
// not repeat.
func addClusterClaims(list []usage.Claim, pods []*v1.Pod, path func(uid types.UID, volume string) string,
	volumes usage.ClaimVolumes) []usage.Claim {
	type name struct{ namespace, claim string }
	seen := map[name]bool{}
	for i := range list {
		seen[name{list[i].Namespace, list[i].Name}] = true
	}
	for _, pod := range pods {
		if !podinfo.IsAPI(pod) {
			continue
		}
		for i := range pod.Spec.Volumes {
			claim := name{pod.Namespace, podinfo.ClaimOf(pod, &pod.Spec.Volumes[i])}
			if claim.claim == "" || seen[claim] {
				continue
			}
			if volume := volumes[path(pod.UID, pod.Spec.Volumes[i].Name)]; volume != nil {
				seen[claim] = true
				list = append(list, usage.Claim{Namespace: claim.namespace, Name: claim.claim, ClaimVolume: *volume})
			}
		}
	}
	return list
}

// pathsOf returns where the claims of manifests are on the host, also if no pod uses them.
func pathsOf(claims []volume.Claim) (paths []string) {
	for i := range claims {
		if claims[i].Path != "" {
			paths = append(paths, claims[i].Path)
		}
	}
	return paths
}

// devicesOf returns the block devices of a cluster's claims that pods use. The directories that they use are
// measured in any case, and others may be large and not for this node.
func devicesOf(claims []volume.ClusterClaim) (paths []string) {
	for i := range claims {
		if c := &claims[i]; c.Path != "" && c.Path == c.MountPath && c.Volume != nil &&
			binding.IsBlock(c.Volume.Spec.VolumeMode) {
			paths = append(paths, c.Path)
		}
	}
	return paths
}
