package describe

import (
	"context"
	"io"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// Describer writes descriptions, separated by empty lines.
type Describer struct {
	client *client.Client
	out    io.Writer
	// Printed is the number of descriptions written.
	Printed int
}

// New returns a Describer that writes to out.
func New(c *client.Client, out io.Writer) *Describer { return &Describer{client: c, out: out} }

// print writes a description, separated from the previous one.
func (d *Describer) print(text string) error {
	if d.Printed++; d.Printed > 1 {
		text = "\n\n" + text
	}
	_, err := io.WriteString(d.out, text)
	return err
}

// Object describes an object of any kind.
func (d *Describer) Object(ctx context.Context, k *objects.Kind, o *objects.Object) error {
	if k.Name == "pods" {
		pod, err := objects.DecodePod(o)
		if err != nil {
			return err
		}
		return d.Pod(ctx, pod)
	}
	var events []v1.Event
	if k.Local == nil && k.Name != "events" {
		var err error
		if events, err = objects.ListEvents(ctx, d.client, objects.KindName(k), o.Namespace, o.Name); err != nil {
			return err
		}
	}
	if k.Name == "nodes" {
		text, err := d.node(ctx, o, events)
		if err != nil {
			return err
		}
		return d.print(text)
	}
	text, err := d.other(ctx, k, o, events)
	if err != nil {
		return err
	}
	return d.print(text)
}

// PodDescription is the input of the description of a pod.
type PodDescription struct {
	Pod      *v1.Pod
	Manifest api.ManifestUnit
	// Rollout is nil for a pod of an API server.
	Rollout *api.Rollout
	// Start is nil for a pod that the daemon has not started.
	Start *api.PodStart
	// Update is nil for a pod whose images are not updated.
	Update *api.AutoUpdate
	Events []v1.Event
	Now    time.Time
}

// Pod describes a pod.
func (d *Describer) Pod(ctx context.Context, pod *v1.Pod) error {
	p := PodDescription{Pod: pod, Now: time.Now()}
	var err error
	if p.Manifest, err = objects.ManifestOf(ctx, d.client, pod); err != nil {
		return err
	}
	if podinfo.PolicyOf(pod).Static {
		if p.Rollout, err = objects.FindRollout(ctx, d.client, pod.Namespace, pod.Name); err != nil {
			return err
		}
	}
	if p.Start, err = objects.FindStart(ctx, d.client, pod); err != nil {
		return err
	}
	if podinfo.AutoUpdate(pod) != "" {
		if p.Update, err = autoUpdateOf(ctx, d.client, pod); err != nil {
			return err
		}
	}
	// Events are selected by name, not by UID: those of an earlier revision say why it
	// ended.
	if p.Events, err = objects.ListEvents(ctx, d.client, "Pod", pod.Namespace, pod.Name); err != nil {
		return err
	}
	return d.print(p.Text())
}

// eventTable returns the table of events at the end of a description.
func eventTable(events []v1.Event, now time.Time) terminal.Table {
	t := terminal.Table{Header: []string{"TYPE", "REASON", "AGE", "FROM", "MESSAGE"}}
	for i := range events {
		e := &events[i]
		t.Rows = append(t.Rows, []string{e.Type, e.Reason, objects.EventAge(e, now), terminal.OrNone(e.Source.Component),
			terminal.OneLine(e.Message)})
	}
	return t
}
