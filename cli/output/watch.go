package output

import (
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
)

// WatchPrinter prints the changes of a watch.
type WatchPrinter struct {
	Format  Format
	Kind    *objects.Kind
	Out     io.Writer
	Columns []metav1.TableColumnDefinition
	// ShowEvents prints the type of each change.
	ShowEvents bool
	Layout     terminal.Layout
	started    bool
}

// Print prints changes. The header of a table is printed with the first ones only.
func (p *WatchPrinter) Print(changes []objects.Change) error {
	if len(changes) == 0 {
		return nil
	}
	switch p.Format.Name {
	case "json", "yaml", "jsonpath", "name":
		return p.objects(changes)
	}
	t := terminal.Table{NoHeader: p.started || p.Format.noHeaders}
	l := &objects.List{Columns: p.Columns}
	now := time.Now()
	for _, ch := range changes {
		row, err := p.row(l, ch.Object, now)
		if err != nil {
			return err
		}
		if p.ShowEvents {
			row = append([]string{ch.Type}, row...)
		}
		t.Rows = append(t.Rows, row)
	}
	if t.Header = p.header(l); p.ShowEvents {
		t.Header = append([]string{"EVENT"}, t.Header...)
	}
	p.started = true
	_, err := io.WriteString(p.Out, p.Layout.Text(t))
	return err
}

func (p *WatchPrinter) header(l *objects.List) []string {
	if p.Format.Name == "columns" {
		return p.Format.customTable(nil).Header
	}
	return p.Format.header(p.Kind, l)
}

func (p *WatchPrinter) row(l *objects.List, o *objects.Object, now time.Time) ([]string, error) {
	if p.Format.Name == "columns" {
		return p.Format.customTable([]*objects.Object{o}).Rows[0], nil
	}
	return p.Format.row(p.Kind, l, o, now)
}

func (p *WatchPrinter) objects(changes []objects.Change) error {
	for _, ch := range changes {
		if p.Format.Name == "yaml" {
			if _, err := io.WriteString(p.Out, "---\n"); err != nil {
				return err
			}
		}
		o := ch.Object
		if p.ShowEvents && (p.Format.Name == "json" || p.Format.Name == "yaml") {
			if err := PrintEncoded(p.Out, map[string]any{"type": ch.Type, "object": o.Tree()}, p.Format.Name); err != nil {
				return err
			}
			continue
		}
		if err := p.Format.PrintObjects(p.Out, []*objects.Object{o}, map[*objects.Object]*objects.Kind{o: p.Kind},
			true); err != nil {
			return err
		}
	}
	return nil
}
