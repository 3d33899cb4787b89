package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/manifest/edit"
)

func applyCommand() *cobra.Command {
	var o editOptions
	var files []string
	var showDiff bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR|-",
		Short: "Apply a configuration to the node by file name or stdin",
		Long: `Write pods and other objects into the manifest directory, from where the daemon runs
them. The manifests are validated first, and the differences are shown; if one is
invalid, nothing is written.

An object that a manifest declares is changed in its file: other documents, their
order and the comments around them are kept, and comments in the document too unless
FILE has its own. New objects get a file of the name of FILE. An object is left as it
is if only its form or its comments would change.

A file is replaced as a whole, with its mode and owner, and only if it did not change
meanwhile. Not changed are objects that come from a URL, an OCI artifact or an API
server, items of a List, and files that are signed, symbolic links or hard links.`,
		Example: `  # Run the pod of a file
  podstead apply -f web.yaml --wait

  # Show what would change
  podstead apply -f manifests/ --dry-run=client

  # Apply generated manifests
  helm template x | podstead apply -f -`,
		Args: fileArgs(&files),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runApply(cmd, o, files, applyMode{diff: showDiff})
		},
	}
	o.addFlags(cmd, "wait until the pods run the applied manifests and are ready")
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil, "`file` or directory of manifests, or - for standard input")
	cmd.Flags().BoolVar(&showDiff, "diff", true, "show the differences to the present manifests")
	return cmd
}

func createCommand() *cobra.Command {
	var o editOptions
	var files []string
	cmd := &cobra.Command{
		Use:   "create -f FILE|DIR|-",
		Short: "Create resources from a file or stdin",
		Long: `Write new pods and other objects into the manifest directory, as apply does. If a
manifest declares one of them already, nothing is written.`,
		Example: `  # Run a pod that does not exist yet
  podstead create -f web.yaml --wait`,
		Args: fileArgs(&files),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runApply(cmd, o, files, applyMode{create: true, diff: o.isDryRun()})
		},
	}
	o.addFlags(cmd, "wait until the pods are ready")
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil, "`file` or directory of manifests, or - for standard input")
	return cmd
}

// fileArgs checks that files and nothing else are given.
func fileArgs(files *[]string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unexpected argument %q; name files with -f", args[0])
		}
		if len(*files) == 0 {
			return errors.New("no manifests given; name files or directories with -f, or -f - for standard input")
		}
		return nil
	}
}

// applyMode is how objects are applied.
type applyMode struct {
	// create refuses objects that exist; diff shows the differences.
	create, diff bool
}

func runApply(cmd *cobra.Command, o editOptions, files []string, mode applyMode) error {
	e, err := openManifests(cmd, o)
	if err != nil {
		return err
	}
	err = e.read(files, func(file string, data []byte, docs []edit.Document) error {
		if err := e.validate(file, data); err != nil {
			return err
		}
		for _, doc := range docs {
			if found, err := e.set.Find(doc.Ref); err == nil && mode.create {
				return fmt.Errorf("%s exists in %s; change it with podstead apply", doc.Ref, found.File)
			}
		}
		changes, err := e.set.Apply(file, data, docs)
		e.changes = append(e.changes, changes...)
		return err
	})
	if err != nil {
		return err
	}
	if err := e.finish(mode.diff); err != nil {
		return err
	}
	return e.await()
}
