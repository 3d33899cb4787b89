package objects

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/client"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/manifest"
)

// ManifestSource is the state of a source of manifests in the daemon's API, as far as it is
// shown.
type ManifestSource struct {
	Source   string
	Location string
	// Delivered reports that the source was read in full since the daemon started, Time when
	// it was last read.
	Delivered bool
	Time      time.Time
	// Incomplete are the invalid manifests because of which it was not delivered.
	Incomplete []string
	// Ignored are the names in its directory that are not read.
	Ignored []string
	Fault   string
	Warning string
	Units   []ManifestUnit
}

// ManifestUnit is the state of one manifest file, URL body or OCI artifact.
type ManifestUnit struct {
	Name   string
	Digest string
	// Revision is the digest of an OCI artifact.
	Revision string
	Pods     []string
	// Restored reports that the last good revision is used.
	Restored bool
	Faults   []string
	Warnings []string
}

// Faults returns the faults of the source and of each of its manifests.
func (s *ManifestSource) Faults() (all []string) {
	if s.Fault != "" {
		all = append(all, s.Fault)
	}
	for _, u := range s.Units {
		all = append(all, u.Faults...)
	}
	return all
}

// Warnings returns the warnings of the source and of each of its manifests; the manifests
// are used nevertheless.
func (s *ManifestSource) Warnings() (all []string) {
	if s.Warning != "" {
		all = append(all, s.Warning)
	}
	for _, u := range s.Units {
		all = append(all, u.Warnings...)
	}
	return all
}

// PrintFaults prints the faults and warnings of all manifests.
func PrintFaults(ctx context.Context, c *client.Client, out io.Writer) error {
	var sources []ManifestSource
	if err := c.Get(ctx, "/podstead/v1/manifests", &sources); err != nil {
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
func ManifestOf(ctx context.Context, c *client.Client, pod *v1.Pod) (ManifestUnit, error) {
	var sources []ManifestSource
	if err := c.Get(ctx, "/podstead/v1/manifests", &sources); err != nil {
		return ManifestUnit{}, err
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
	return ManifestUnit{}, nil
}
