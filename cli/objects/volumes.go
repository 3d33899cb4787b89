package objects

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/podstead/podstead/cli/client"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/manifest"
)

var (
	volumeHeader = []string{"NAMESPACE", "CLAIM", "REQUESTED", "USED BY", "PATH"}
	// VolumeOriginHeader are the columns that tell the claims of a cluster from those of manifests. A column TYPE
	// would be colored.
	VolumeOriginHeader = []string{"VOLUME TYPE", "SOURCE", "STATE", "MESSAGE"}
)

// PersistentVolume is the volume of a claim in podstead's own API.
type PersistentVolume struct {
	Namespace, Name, Path, Requested    string
	Volume, StorageClass, ReclaimPolicy string
	// Source is api for a claim of the cluster.
	Source string
	// Type and Capacity are those that the PersistentVolume declares.
	Type, Capacity string
	// Declared: a manifest declares the volume, whose content is never deleted.
	Declared bool
	Pods     []string
	// State is Bound, or Waiting while a pod waits for the claim.
	State   string
	Waiting []VolumeWait
	// Usage is nil if it was not requested, or is unknown.
	Usage *VolumeUsage
}

// VolumeWait is why a pod waits for its claim.
type VolumeWait struct{ Pod, Message string }

// VolumeUsage is the usage of a volume in bytes.
type VolumeUsage struct {
	CapacityBytes uint64
	// UsedBytes is nil for a block device.
	UsedBytes *uint64
	// Incomplete: UsedBytes is what was counted in time.
	Incomplete bool
	// LimitBytes is what a quota enforces; 0 is none.
	LimitBytes uint64
}

// OfCluster reports whether the claim belongs to a cluster.
func (v *PersistentVolume) OfCluster() bool { return v.Source == string(manifest.SourceAPI) }

// OriginCells returns the cells of VolumeOriginHeader.
func (v *PersistentVolume) OriginCells() []string {
	return []string{terminal.OrNone(v.Type), terminal.OrNone(v.Source), terminal.OrNone(v.State), terminal.OrNone(terminal.OneLine(v.message()))}
}

// message says which pods wait for the claim and why; pods with the same reason together.
func (v *PersistentVolume) message() string {
	var reasons, texts []string
	pods := map[string][]string{}
	for _, w := range v.Waiting {
		if !slices.Contains(reasons, w.Message) {
			reasons = append(reasons, w.Message)
		}
		pods[w.Message] = append(pods[w.Message], w.Pod)
	}
	for _, reason := range reasons {
		verb := " waits: "
		if len(pods[reason]) > 1 {
			verb = " wait: "
		}
		texts = append(texts, strings.Join(pods[reason], ",")+verb+reason)
	}
	return strings.Join(texts, "; ")
}

func localVolumes(ctx context.Context, c *client.Client) ([]json.RawMessage, error) {
	return listRaw(ctx, c, "/podstead/v1/volumes")
}

func volumeCells(o *Object, _ time.Time) ([]string, error) {
	var v PersistentVolume
	if err := o.Decode(&v); err != nil {
		return nil, err
	}
	cells := []string{v.Namespace, v.Name, terminal.OrNone(v.Requested), terminal.OrNone(strings.Join(v.Pods, ",")), terminal.OrNone(v.Path)}
	return append(cells, v.OriginCells()...), nil
}
