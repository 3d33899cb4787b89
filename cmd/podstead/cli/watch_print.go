package cli

import (
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watchPrinter prints changes as they come.
type watchPrinter struct {
	form    form
	kind    *kind
	out     io.Writer
	columns []metav1.TableColumnDefinition
	// events says of each change what it is.
	events  bool
	layout  layout
	started bool
}

func (p *watchPrinter) print(changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	switch p.form.name {
	case "json", "yaml", "jsonpath", "name":
		return p.objects(changes)
	}
	t := table{bare: p.started || p.form.bare}
	l := &listing{columns: p.columns}
	now := time.Now()
	for _, ch := range changes {
		row, err := p.row(l, ch.object, now)
		if err != nil {
			return err
		}
		if p.events {
			row = append([]string{ch.kind}, row...)
		}
		t.rows = append(t.rows, row)
	}
	if t.head = p.head(l); p.events {
		t.head = append([]string{"EVENT"}, t.head...)
	}
	p.started = true
	_, err := io.WriteString(p.out, p.layout.text(t))
	return err
}

func (p *watchPrinter) head(l *listing) []string {
	if p.form.name == "columns" {
		return p.form.customTable(nil).head
	}
	return p.form.head(p.kind, l)
}

func (p *watchPrinter) row(l *listing, o *object, now time.Time) ([]string, error) {
	if p.form.name == "columns" {
		return p.form.customTable([]*object{o}).rows[0], nil
	}
	return p.form.row(p.kind, l, o, now)
}

func (p *watchPrinter) objects(changes []change) error {
	for _, ch := range changes {
		if p.form.name == "yaml" {
			if _, err := io.WriteString(p.out, "---\n"); err != nil {
				return err
			}
		}
		o := ch.object
		if p.events && (p.form.name == "json" || p.form.name == "yaml") {
			if err := printEncoded(p.out, map[string]any{"type": ch.kind, "object": o.tree()}, p.form.name); err != nil {
				return err
			}
			continue
		}
		if err := p.form.objects(p.out, []*object{o}, map[*object]*kind{o: p.kind}, true); err != nil {
			return err
		}
	}
	return nil
}
