package objects

import (
	"context"
	"fmt"
	"io"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/manifest"
)

// PrintFaults prints the faults and warnings of all manifests.
func PrintFaults(ctx context.Context, c *client.Client, out io.Writer) error {
	sources, err := c.Manifests(ctx)
	if err != nil {
		return err
	}
	for i := range sources {
		for _, fault := range sources[i].Faults() {
			fmt.Fprintf(out, "fault: %s\n", terminal.Visible(fault))
		}
		for _, warning := range sources[i].Warnings() {
			fmt.Fprintf(out, "warning: %s\n", terminal.Visible(warning))
		}
	}
	return nil
}

// ManifestOf returns the file or URL body that contains the pod, zero if no source contains
// it any more.
func ManifestOf(ctx context.Context, c *client.Client, pod *v1.Pod) (api.ManifestUnit, error) {
	sources, err := c.Manifests(ctx)
	if err != nil {
		return api.ManifestUnit{}, err
	}
	for _, s := range sources {
		for _, u := range s.Units {
			if slices.Contains(u.Pods, pod.Namespace+"/"+manifest.BaseName(pod)) {
				if s.Fault != "" {
					u.Faults = append(u.Faults, s.Fault)
				}
				return u, nil
			}
		}
	}
	return api.ManifestUnit{}, nil
}
