package describe

import (
	"context"
	"io"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/objects"
	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
)

// describer is one call of describe.
type Describer struct {
	client  *client.Client
	out     io.Writer
	Printed int
}

func New(c *client.Client, out io.Writer) *Describer { return &Describer{client: c, out: out} }

// print prints a description, apart from the one before.
func (d *Describer) print(text string) error {
	if d.Printed++; d.Printed > 1 {
		text = "\n\n" + text
	}
	_, err := io.WriteString(d.out, text)
	return err
}

func (d *Describer) Object(ctx context.Context, k *objects.Kind, o *objects.Object) error {
	if k.Name == "pods" {
		pod, err := objects.DecodePod(o)
		if err != nil {
			return err
		}
		return d.Pod(ctx, pod)
	}
	var happened []v1.Event
	if k.Local == nil && k.Name != "events" {
		var err error
		if happened, err = objects.ListEvents(ctx, d.client, objects.KindName(k), o.Namespace, o.Name); err != nil {
			return err
		}
	}
	if k.Name == "nodes" {
		text, err := d.node(ctx, o, happened)
		if err != nil {
			return err
		}
		return d.print(text)
	}
	text, err := d.plain(ctx, k, o, happened)
	if err != nil {
		return err
	}
	return d.print(text)
}

// described is what a description is made of.
type PodDescription struct {
	Pod      *v1.Pod
	Manifest objects.ManifestUnit
	Events   []v1.Event
	Now      time.Time
}

func (d *Describer) Pod(ctx context.Context, pod *v1.Pod) error {
	of := PodDescription{Pod: pod, Now: time.Now()}
	var err error
	if of.Manifest, err = objects.ManifestOf(ctx, d.client, pod); err != nil {
		return err
	}
	// Those of an earlier revision have another UID; they tell why it went.
	if of.Events, err = objects.ListEvents(ctx, d.client, "Pod", pod.Namespace, pod.Name); err != nil {
		return err
	}
	return d.print(of.Text())
}

// eventTable is that of describe.
func eventTable(events []v1.Event, now time.Time) terminal.Table {
	t := terminal.Table{Header: []string{"TYPE", "REASON", "AGE", "FROM", "MESSAGE"}}
	for i := range events {
		e := &events[i]
		t.Rows = append(t.Rows, []string{e.Type, e.Reason, objects.EventAge(e, now), terminal.OrNone(e.Source.Component), terminal.OneLine(e.Message)})
	}
	return t
}
