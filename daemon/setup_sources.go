package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/internal/signature"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/rollout"
)

// sources are where pods and the objects next to them come from.
type sources struct {
	config     *manifest.PodConfig
	checkpoint *manifest.Checkpoint
	// rollouts decide which revisions of config's pods are in effect; createSupervisor
	// sets it.
	rollouts *rollout.Controller
}

// openSources opens the checkpoint and creates the sources of files, URLs and artifacts that
// the options name. The API server's pods are delivered by the cluster adapter.
func (d *daemon) openSources(context.Context) error {
	o := &d.opts.Manifests
	checkpoint, err := manifest.OpenCheckpoint(filepath.Join(d.opts.Paths.Root, "checkpoint", "manifests.json"), d.log,
		d.disk)
	if err != nil {
		return err
	}
	config := manifest.NewPodConfig(
		manifest.PodConfigOptions{Sources: d.sourceNames(), Checkpoint: checkpoint, Log: d.log})
	d.sources = &sources{config: config, checkpoint: checkpoint}
	d.start(checkpoint.Run, config.Run)
	loader := manifest.NewLoader(d.nodeName, manifest.Mode(o.Mode))
	keys := map[manifest.Source]manifest.Verifier{}
	for _, source := range d.sourceNames() {
		if keys[source], err = verifier(o, source); err != nil {
			return err
		}
	}
	if o.Path != "" {
		d.start(manifest.NewFileSource(manifest.FileSourceOptions{
			Path: o.Path, Node: d.nodeName, Rescan: o.FileCheck,
			Loader: loader, Checkpoint: checkpoint, Deliver: config, Log: d.log, Keys: keys[manifest.SourceFile],
			Scanned: func(at time.Time) { config.MarkRead(manifest.SourceFile, at) },
		}).Run)
	}
	if o.URL != "" {
		u, err := manifest.NewURLSource(manifest.URLSourceOptions{
			URL: o.URL, Header: o.Header, CAFile: o.CAFile, Node: d.nodeName, Interval: o.HTTPCheck,
			Loader: loader, Checkpoint: checkpoint, Deliver: config, Keys: keys[manifest.SourceHTTP],
			Read: func(at time.Time) { config.MarkRead(manifest.SourceHTTP, at) },
		})
		if err != nil {
			return err
		}
		d.start(u.Run)
	}
	if len(o.OCI) > 0 {
		var verify func(context.Context, manifest.Artifact) error
		if keys[manifest.SourceOCI] != nil {
			verify = manifest.VerifyArtifact(keys[manifest.SourceOCI], d.registries)
		}
		a, err := manifest.NewOCISource(manifest.OCISourceOptions{
			Verify:    verify,
			Artifacts: o.OCI, Registry: d.registries, Credentials: d.credentials, WithoutTLS: d.registries.IsPlain,
			Node: d.nodeName, Interval: o.HTTPCheck, Loader: loader, Checkpoint: checkpoint, Deliver: config,
			Read: func(at time.Time) { config.MarkRead(manifest.SourceOCI, at) },
		})
		if err != nil {
			return err
		}
		d.start(a.Run)
	}
	return nil
}

// verifier returns what verifies the manifests of a source, nil if they need no signature.
func verifier(o *config.Manifests, source manifest.Source) (manifest.Verifier, error) {
	files := o.Keys.For(source)
	if len(files) == 0 {
		return nil, nil
	}
	keys, err := signature.ReadKeys(files)
	if err != nil {
		return nil, fmt.Errorf("--manifest-verify-key: %w", err)
	}
	return keys, nil
}

// sourceNames returns the sources that are going to deliver.
func (d *daemon) sourceNames() (names []manifest.Source) {
	if d.opts.Manifests.Path != "" {
		names = append(names, manifest.SourceFile)
	}
	if d.opts.Manifests.URL != "" {
		names = append(names, manifest.SourceHTTP)
	}
	if len(d.opts.Manifests.OCI) > 0 {
		names = append(names, manifest.SourceOCI)
	}
	if d.opts.Cluster.Kubeconfig != "" {
		names = append(names, manifest.SourceAPI)
	}
	return names
}
