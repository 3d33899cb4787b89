package objects

import (
	"cmp"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podstead/podstead/cli/terminal"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/podtable"
)

// The columns of the tables that are made here: those of kubectl, and information that only
// this daemon has.
var (
	podHeader       = []string{"NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"}
	podWideHeader   = []string{"IP", "NODE", "SOURCE", "MESSAGE"}
	eventHeader     = []string{"NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"}
	eventWideHeader = []string{"FROM", "FIRST SEEN", "COUNT", "NAME"}
	imageHeader     = []string{"IMAGE", "ID", "SIZE", "STATE", "LAST USED"}
)

func podCells(o *Object, now time.Time) ([]string, error) {
	var p v1.Pod
	if err := o.Decode(&p); err != nil {
		return nil, err
	}
	ready, restarts, last := podtable.Tally(&p)
	return []string{
		p.Namespace, p.Name, fmt.Sprintf("%d/%d", ready, podtable.Containers(&p)),
		podtable.State(&p), podtable.Restarts(restarts, last, now), podtable.Age(&p, now),
		terminal.OrNone(p.Status.PodIP), terminal.OrNone(p.Spec.NodeName),
		terminal.OrNone(p.Annotations[podinfo.AnnotationSource]),
		terminal.OrNone(terminal.OneLine(cmp.Or(o.Cause, podtable.Message(&p)))),
	}, nil
}

func eventCells(o *Object, now time.Time) ([]string, error) {
	var e v1.Event
	if err := o.Decode(&e); err != nil {
		return nil, err
	}
	return []string{
		e.Namespace, EventAge(&e, now), e.Type, e.Reason, involvedObject(&e), terminal.OneLine(e.Message),
		terminal.OrNone(e.Source.Component), duration.HumanDuration(now.Sub(e.FirstTimestamp.Time)),
		fmt.Sprint(max(e.Count, 1)), e.Name,
	}, nil
}
