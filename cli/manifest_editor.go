package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/manifestfile"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/wait"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/change"
	"github.com/podstead/podstead/manifest/edit"
)

// editOptions are the flags of commands that change manifests.
type editOptions struct {
	socket, directory, node string
	mode, dryRun            string
	wait                    bool
	timeout                 time.Duration
}

func (o *editOptions) addFlags(cmd *cobra.Command, waitHelp string) {
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVar(&o.directory, "pod-manifest-path", "",
		"manifest `directory` or file (default: the one that the daemon reads); with it no daemon is needed")
	f.StringVar(&o.node, "hostname-override", "", "node `name` if there is no daemon (default: the hostname)")
	f.StringVar(&o.mode, "manifest-validation", string(manifest.ModeStrict),
		"how to treat unknown and duplicate fields: strict, warn or ignore")
	f.StringVar(&o.dryRun, "dry-run", "none",
		"client or server shows what would change, without changing it, server only with a daemon; none changes it")
	f.BoolVar(&o.wait, "wait", false, waitHelp)
	durationVar(f, &o.timeout, "timeout", defaultTimeout, "how long to wait")
}

// isDryRun reports whether nothing is written. A dry run of the server is one of the client that
// needs a daemon: what it checks, the daemon checks with the same code, and only the daemon knows
// the objects of other sources.
func (o *editOptions) isDryRun() bool { return o.dryRun != "none" }

// manifestEditor is one invocation of a command that changes manifests.
type manifestEditor struct {
	cmd    *cobra.Command
	opts   editOptions
	client *client.Client
	loader *manifest.Loader
	node   string
	set    *change.Set
	// sources and others are what the daemon reads, nil without a daemon: others are the
	// objects that are not pods.
	sources []api.ManifestSource
	others  []api.ManifestObject
	changes []edit.Change
	// warned are the warnings that were printed, without their places: the file that is written has
	// those of the file that is read.
	warned map[manifest.Fault]bool
}

// openManifests reads the manifests that the daemon reads.
func openManifests(cmd *cobra.Command, o editOptions) (*manifestEditor, error) {
	mode, err := manifest.ParseMode(o.mode)
	if err != nil {
		return nil, usageError(fmt.Errorf("--manifest-validation: %w", err))
	}
	switch o.dryRun {
	case "none", "client", "server":
	default:
		return nil, usageError(fmt.Errorf("--dry-run %q: must be client, server or none", o.dryRun))
	}
	e := &manifestEditor{cmd: cmd, opts: o, client: client.New(o.socket), warned: map[manifest.Fault]bool{}}
	if err := e.findDirectory(cmd.Context()); err != nil {
		return nil, err
	}
	e.loader = manifest.NewLoader(e.node, mode)
	e.set, err = change.Open(e.opts.directory, e.loader, e.declaration)
	return e, err
}

// findDirectory asks the daemon for its manifests and its node.
func (e *manifestEditor) findDirectory(ctx context.Context) error {
	var err error
	if e.sources, err = e.client.Manifests(ctx); err == nil {
		e.others, err = e.client.Objects(ctx)
	}
	if err == nil {
		e.node, err = objects.NodeName(ctx, e.client)
	}
	if err != nil {
		if e.opts.directory == "" || !client.IsUnreachable(err) || e.opts.wait || e.opts.dryRun == "server" {
			return err
		}
		if e.node = strings.ToLower(e.opts.node); e.node == "" {
			if e.node, err = os.Hostname(); err != nil {
				return fmt.Errorf("failed to get the hostname: %w; set it with --hostname-override", err)
			}
		}
		return nil
	}
	if e.opts.directory != "" {
		return nil
	}
	for _, s := range e.sources {
		if s.Source == string(manifest.SourceFile) {
			e.opts.directory = s.Location
			return nil
		}
	}
	return errors.New("the daemon reads no manifest directory, so that there is nowhere to write; set " +
		"--pod-manifest-path of podstead run")
}

// read reads the objects of the given files, directories or standard input, and passes those of
// each file on.
func (e *manifestEditor) read(paths []string, use func(file string, data []byte, docs []edit.Document) error) error {
	owners := map[manifest.ObjectRef]string{}
	found := false
	for _, path := range paths {
		err := manifestfile.Each(e.cmd.Context(), path, e.cmd.InOrStdin(),
			func(file string, data []byte, fault *manifest.Fault) error {
				if fault != nil {
					return *fault
				}
				found = true
				docs, faults := edit.Documents(file, data)
				if faults.Fatal() {
					// It knows what the file is instead, such as a Compose file.
					if err := e.validate(file, data); err != nil {
						return err
					}
					return faults
				}
				for _, doc := range docs {
					if owner, twice := owners[doc.Ref]; twice {
						return &edit.DuplicateError{Ref: doc.Ref, Files: []string{owner, file}}
					}
					owners[doc.Ref] = file
				}
				return use(file, data, docs)
			})
		if err != nil {
			return err
		}
	}
	if !found {
		return errors.New("no manifests found; manifests in a directory must end in .yaml, .yml or .json")
	}
	return nil
}

// validate prints the faults of a manifest, and returns an error if one is fatal.
func (e *manifestEditor) validate(file string, data []byte) error {
	_, faults := e.loader.Load(manifest.LoadRequest{Source: manifest.SourceFile, Unit: file, Data: data})
	return e.report(faults)
}

// report prints faults, and returns an error if one is fatal.
func (e *manifestEditor) report(faults manifest.Faults) error {
	for _, f := range faults {
		if !f.Warning {
			e.cmd.PrintErrln(f.Error())
			continue
		}
		known := f
		known.Unit, known.Line = "", 0
		if !e.warned[known] {
			e.cmd.PrintErrln("warning: " + f.Error())
		}
		e.warned[known] = true
	}
	if faults.Fatal() {
		return &ExitError{Code: ExitFailed}
	}
	return nil
}

// declaration returns where an object in effect comes from, as the daemon reports it.
func (e *manifestEditor) declaration(ref manifest.ObjectRef) (manifest.Declared, bool) {
	for i := range e.sources {
		for _, u := range e.sources[i].Units {
			if ref.Kind == "Pod" && slices.Contains(u.Pods, ref.Namespace+"/"+ref.Name) {
				return manifest.Declared{Source: manifest.Source(e.sources[i].Source), Unit: u.Name}, true
			}
		}
	}
	for _, o := range e.others {
		if o.Kind == ref.Kind && o.Namespace == ref.Namespace && o.Name == ref.Name {
			return manifest.Declared{Source: manifest.Source(o.Source), Unit: o.Manifest}, true
		}
	}
	return manifest.Declared{}, false
}

// finish shows the changes, writes them, and reports each object.
func (e *manifestEditor) finish(showDiff bool, changes ...edit.Change) error {
	e.changes = append(e.changes, changes...)
	dry, suffix := e.opts.isDryRun(), ""
	if dry {
		suffix = " (dry run)"
	}
	err := e.set.Commit(e.cmd.Context(), dry, func(faults manifest.Faults) error {
		if err := e.report(faults); err != nil || !showDiff {
			return err
		}
		for i := range e.changes {
			if err := printChange(e.cmd.OutOrStdout(), &e.changes[i], dry); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, os.ErrPermission) {
		err = fmt.Errorf("%w; run this as the owner of %s, usually root", err, e.opts.directory)
	}
	if err != nil {
		return err
	}
	for i := range e.changes {
		c := &e.changes[i]
		if _, err := fmt.Fprintf(e.cmd.OutOrStdout(), "%s/%s %s%s in %s\n", strings.ToLower(c.Ref.Kind), c.Ref.Name, c.Verb(),
			suffix, c.File); err != nil {
			return err
		}
	}
	return nil
}

// await waits until the pods that were applied run their manifests, or until those that were
// deleted are gone.
func (e *manifestEditor) await() error {
	if !e.opts.wait || e.opts.isDryRun() {
		return nil
	}
	w := wait.Waiter{Client: e.client, Out: e.cmd.OutOrStdout(), ErrOut: e.cmd.ErrOrStderr(), Timeout: e.opts.timeout,
		Kind: objects.PodKind()}
	var files, pods []string
	for i := range e.changes {
		c := &e.changes[i]
		if c.Ref.Kind != "Pod" {
			continue
		}
		name := c.Ref.Name + "-" + strings.ToLower(e.node)
		pods = append(pods, c.Ref.Namespace+"/"+name)
		if c.After == nil {
			w.Targets = append(w.Targets, &wait.Target{Namespace: c.Ref.Namespace, Name: name, Existed: true})
		} else if !slices.Contains(files, c.File) {
			files = append(files, c.File)
		}
	}
	if len(pods) == 0 {
		return nil
	}
	if len(files) == 0 {
		if err := w.SetCondition("delete", "", false); err != nil {
			return err
		}
		return w.Run(e.cmd.Context())
	}
	if err := w.SetRevisions(e.cmd.Context(), files); err != nil {
		return err
	}
	// Other pods of the files were not asked for.
	w.Targets = slices.DeleteFunc(w.Targets,
		func(t *wait.Target) bool { return !slices.Contains(pods, t.Namespace+"/"+t.Name) })
	return w.Run(e.cmd.Context())
}
