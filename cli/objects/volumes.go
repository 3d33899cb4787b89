package objects

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/manifest"
)

var (
	volumeHeader = []string{"NAMESPACE", "CLAIM", "REQUESTED", "USED BY", "PATH"}
	// VolumeOriginHeader are the columns that tell the claims of a cluster from those of manifests. A column TYPE
	// would be colored.
	VolumeOriginHeader = []string{"VOLUME TYPE", "SOURCE", "STATE", "MESSAGE"}
)

// OfCluster reports whether the claim belongs to a cluster.
func OfCluster(v *api.PersistentVolume) bool { return v.Source == string(manifest.SourceAPI) }

// VolumeOriginCells returns the cells of VolumeOriginHeader.
func VolumeOriginCells(v *api.PersistentVolume) []string {
	return []string{terminal.OrNone(v.Type), terminal.OrNone(v.Source), terminal.OrNone(v.State),
		terminal.OrNone(terminal.OneLine(volumeMessage(v)))}
}

// volumeMessage reports which pods wait for the claim and why; pods with the same reason together.
func volumeMessage(v *api.PersistentVolume) string {
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
	return listRaw(ctx, c, api.Path+"/volumes")
}

func volumeCells(o *Object, _ time.Time) ([]string, error) {
	var v api.PersistentVolume
	if err := o.Decode(&v); err != nil {
		return nil, err
	}
	cells := []string{v.Namespace, v.Name, terminal.OrNone(v.Requested), terminal.OrNone(strings.Join(v.Pods, ",")),
		terminal.OrNone(v.Path)}
	return append(cells, VolumeOriginCells(&v)...), nil
}
