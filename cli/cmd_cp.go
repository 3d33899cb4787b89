package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/filecopy"
	"github.com/podstead/podstead/cli/objects"
)

func copyCommand() *cobra.Command {
	var o streamOptions
	cmd := &cobra.Command{
		Use:   "cp FROM TO",
		Short: "Copy files and directories to and from containers",
		Long: `Copy files and directories to and from containers.

One of FROM and TO is POD:PATH or NAMESPACE/POD:PATH, the other a local path. If TO
is an existing directory, the copy is created inside it under its own name. The
container needs tar, or for a single file cat (and sh to write it).

A copy from a container writes nothing outside TO: names that contain .. and links
that point outside are skipped with a warning.`,
		Example: `  # Copy a file from pod web
  podstead cp web:/etc/hosts ./hosts

  # Copy a directory to container main of pod web
  podstead cp ./site web:/srv -c main`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return runCopy(cmd, o, args[0], args[1]) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "",
		"`namespace` of the pod; required if pods in several namespaces have this name")
	f.StringVarP(&o.container, "container", "c", "", "`name` of the container; required if the pod has more than one")
	return cmd
}

// location is the source or the destination of a copy.
type location struct {
	// pod is empty for a local path.
	namespace, pod, path string
}

// parseLocation parses POD:PATH, NAMESPACE/POD:PATH or a local path. A text that starts
// with / or . is a local path even if it contains a colon.
func parseLocation(text string) (location, error) {
	before, after, ok := strings.Cut(text, ":")
	if !ok || strings.HasPrefix(text, "/") || strings.HasPrefix(text, ".") {
		if text == "" {
			return location{}, usageError(errors.New("path must not be empty"))
		}
		return location{path: text}, nil
	}
	p := location{pod: before, path: after}
	if ns, pod, both := strings.Cut(before, "/"); both {
		p.namespace, p.pod = ns, pod
	}
	switch {
	case p.pod == "" || strings.Contains(p.pod, "/"):
		return location{}, usageError(fmt.Errorf("%q: must be POD:PATH or NAMESPACE/POD:PATH", text))
	case after == "":
		return location{}, usageError(fmt.Errorf("%q: no path after the colon", text))
	}
	return p, nil
}

func runCopy(cmd *cobra.Command, o streamOptions, fromText, toText string) error {
	from, err := parseLocation(fromText)
	if err != nil {
		return err
	}
	to, err := parseLocation(toText)
	if err != nil {
		return err
	}
	remote := from
	if from.pod == "" {
		remote = to
	}
	if (from.pod == "") == (to.pod == "") {
		return usageError(errors.New("one of FROM and TO must be in a pod, as POD:PATH, and the other must be a local path"))
	}
	if remote.namespace != "" && o.namespace != "" && remote.namespace != o.namespace {
		return usageError(fmt.Errorf("--namespace %s conflicts with namespace %s before the pod", o.namespace,
			remote.namespace))
	}
	if remote.namespace != "" {
		o.namespace = remote.namespace
	}
	c := client.New(o.socket)
	pod, err := objects.FindPod(cmd.Context(), c, o.namespace, remote.pod, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if o.container, err = objects.ChooseContainer(pod, o.container); err != nil {
		return err
	}
	target := &filecopy.Container{Client: c, Pod: pod, Name: o.container,
		Warn: func(format string, args ...any) { cmd.PrintErrf("podstead: "+format+"\n", args...) }}
	if from.pod == "" {
		err = target.Upload(cmd.Context(), from.path, to.path)
	} else {
		err = target.Download(cmd.Context(), from.path, to.path)
	}
	return interrupted(cmd, err)
}
