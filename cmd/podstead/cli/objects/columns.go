package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/podtable"
)

// The tables of the kinds that have one of their own here: kubectl's columns,
// and what only this daemon knows.
var (
	podHead       = []string{"NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"}
	podHeadWide   = []string{"IP", "NODE", "SOURCE", "MESSAGE"}
	eventHead     = []string{"NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"}
	eventHeadWide = []string{"FROM", "FIRST SEEN", "COUNT", "NAME"}
	imageHead     = []string{"IMAGE", "ID", "SIZE", "STATE", "LAST USED"}
	volumeHead    = []string{"NAMESPACE", "CLAIM", "REQUESTED", "USED BY", "PATH"}
)

func podCells(o *Object, now time.Time) ([]string, error) {
	var p v1.Pod
	if err := o.Decode(&p); err != nil {
		return nil, fmt.Errorf("cannot read a pod that podstead sent: %w", err)
	}
	ready, restarts, last := podtable.Tally(&p)
	return []string{
		p.Namespace, p.Name, fmt.Sprintf("%d/%d", ready, podtable.Containers(&p)),
		podtable.State(&p), podtable.Restarts(restarts, last, now), podtable.Age(&p, now),
		terminal.OrNone(p.Status.PodIP), terminal.OrNone(p.Spec.NodeName), terminal.OrNone(p.Annotations[podinfo.AnnotationSource]), terminal.OrNone(terminal.OneLine(podtable.Message(&p))),
	}, nil
}

func eventCells(o *Object, now time.Time) ([]string, error) {
	var e v1.Event
	if err := o.Decode(&e); err != nil {
		return nil, fmt.Errorf("cannot read an event that podstead sent: %w", err)
	}
	return []string{
		e.Namespace, EventAge(&e, now), e.Type, e.Reason, involved(&e), terminal.OneLine(e.Message),
		terminal.OrNone(e.Source.Component), duration.HumanDuration(now.Sub(e.FirstTimestamp.Time)), fmt.Sprint(max(e.Count, 1)), e.Name,
	}, nil
}

func localVolumes(ctx context.Context, c *client.Client) ([]json.RawMessage, error) {
	return listRaw(ctx, c, "/podstead/v1/volumes")
}

func volumeCells(o *Object, _ time.Time) ([]string, error) {
	var v PersistentVolume
	if err := o.Decode(&v); err != nil {
		return nil, fmt.Errorf("cannot read a volume that podstead sent: %w", err)
	}
	return []string{v.Namespace, v.Name, terminal.OrNone(v.Requested), terminal.OrNone(strings.Join(v.Pods, ",")), v.Path}, nil
}
