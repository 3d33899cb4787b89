package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/terminal"
)

// ImageTable returns the table of images, with a row for each of their tags.
func ImageTable(list []api.Image, now time.Time) terminal.Table {
	t := terminal.Table{Header: imageHeader}
	for i := range list {
		for _, name := range ImageReferences(&list[i]) {
			t.Rows = append(t.Rows, imageRow(&list[i], name, now))
		}
	}
	return t
}

// ImageReferences returns all tags of an image, or its name if it has none.
func ImageReferences(m *api.Image) []string {
	if len(m.Tags) == 0 {
		return []string{m.Name}
	}
	return m.Tags
}

func imageRow(m *api.Image, name string, now time.Time) []string {
	last := "<unknown>"
	switch {
	case m.State == "used":
		last = "now"
	case !m.LastUsed.IsZero():
		last = duration.HumanDuration(now.Sub(m.LastUsed)) + " ago"
	case !m.Pulled.IsZero():
		last = "never"
	}
	return []string{name, ShortID(m.ID), FormatSize(m.Size), m.State, last}
}

// ShortID returns the first 12 digits of an image ID.
func ShortID(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(12, len(id))]
}

// FormatSize returns a number of bytes in a readable unit.
func FormatSize(n uint64) string {
	for _, unit := range []struct {
		size uint64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

func localImages(ctx context.Context, c *client.Client) ([]json.RawMessage, error) {
	return listRaw(ctx, c, api.Path+"/images")
}

func imageNames(o *Object) []string {
	var m api.Image
	if o.Decode(&m) != nil {
		return nil
	}
	return append(m.Tags, m.ID, ShortID(m.ID))
}

func imageCells(o *Object, now time.Time) ([]string, error) {
	var m api.Image
	if err := o.Decode(&m); err != nil {
		return nil, err
	}
	return imageRow(&m, strings.Join(ImageReferences(&m), ","), now), nil
}
