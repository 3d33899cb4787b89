package objects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
)

// LoadImageArchives requests the state of the directory. A daemon before an upgrade has
// none.
func LoadImageArchives(ctx context.Context, c *client.Client) (a api.ImageArchives, err error) {
	a, err = c.ImageArchives(ctx)
	var status *client.StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
		err = nil
	}
	return a, err
}

// ArchiveFaults reports why archives, or the directory, cannot be loaded.
func ArchiveFaults(a *api.ImageArchives) (all []string) {
	if a.Fault != "" {
		all = append(all, a.Fault)
	}
	for _, f := range a.Archives {
		if f.State == "Failed" {
			all = append(all, f.File+": "+f.Message)
		}
	}
	return all
}

// ArchiveWarnings reports what of the directory is not used.
func ArchiveWarnings(a *api.ImageArchives) (all []string) {
	for _, f := range a.Archives {
		for _, image := range slices.Sorted(maps.Keys(f.Superseded)) {
			all = append(all, fmt.Sprintf("%s: image %s is loaded from %s instead, which was modified later", f.File, image,
				f.Superseded[image]))
		}
	}
	for _, name := range a.Ignored {
		all = append(all, fmt.Sprintf("%s/%s is not read: the name of an archive ends in .tar, .tar.gz or .tgz", a.Directory,
			name))
	}
	return all
}

// ArchiveSummary counts the archives by state, empty if there are none.
func ArchiveSummary(a *api.ImageArchives) string {
	counts := map[string]int{}
	for _, f := range a.Archives {
		counts[f.State]++
	}
	text := ""
	for _, state := range []string{"Loaded", "Loading", "Waiting", "Incomplete", "Failed"} {
		if counts[state] > 0 {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("%d %s", counts[state], state)
		}
	}
	return text
}
