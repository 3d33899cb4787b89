package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/filecopy"
	"github.com/podstead/podstead/cmd/podstead/cli/objects"
)

func copyCommand() *cobra.Command {
	var o streamOptions
	cmd := &cobra.Command{
		Use:   "cp FROM TO",
		Short: "Copy files into a container or out of it",
		Long: `Copy a file or a folder into a container or out of it.

One of FROM and TO is POD:PATH or NAMESPACE/POD:PATH, the other a path here. If
TO is a folder that is there, what is copied gets its own name in it. The
container needs tar, or for a single file cat (and sh to write it).

Out of a container nothing is written outside TO: a name with .. and a link that
leads out of it are left out, with a warning.`,
		Example: `  podstead cp web:/etc/hosts ./hosts
  podstead cp ./site web:/srv -c main`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return runCopy(cmd, o, args[0], args[1]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.socket, "api-socket", DefaultSocket, "the daemon's `socket`")
	f.StringVarP(&o.namespace, "namespace", "n", "", "the pod's `namespace`, needed if several have a pod of this name")
	f.StringVarP(&o.container, "container", "c", "", "the `container`, needed if the pod has several")
	return cmd
}

// place is one side of a copy.
type location struct {
	// pod is empty for a path of this machine.
	namespace, pod, path string
}

// parsePlace reads POD:PATH, NAMESPACE/POD:PATH or a path. What begins with /
// or . is a path, whatever colons it has.
func parseLocation(text string) (location, error) {
	before, after, ok := strings.Cut(text, ":")
	if !ok || strings.HasPrefix(text, "/") || strings.HasPrefix(text, ".") {
		if text == "" {
			return location{}, usageError(errors.New("a path must not be empty"))
		}
		return location{path: text}, nil
	}
	p := location{pod: before, path: after}
	if ns, pod, both := strings.Cut(before, "/"); both {
		p.namespace, p.pod = ns, pod
	}
	switch {
	case p.pod == "" || strings.Contains(p.pod, "/"):
		return location{}, usageError(fmt.Errorf("%q: before the colon must be POD or NAMESPACE/POD", text))
	case after == "":
		return location{}, usageError(fmt.Errorf("%q: a path must follow the colon", text))
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
		return usageError(errors.New("one of both must be in a pod, as POD:PATH, and the other here"))
	}
	if remote.namespace != "" && o.namespace != "" && remote.namespace != o.namespace {
		return usageError(fmt.Errorf("--namespace %s, and %s before the pod: give one of them", o.namespace, remote.namespace))
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
	box := &filecopy.Container{Client: c, Pod: pod, Name: o.container, Warn: func(format string, args ...any) { cmd.PrintErrf("podstead: "+format+"\n", args...) }}
	if from.pod == "" {
		err = box.Upload(cmd.Context(), from.path, to.path)
	} else {
		err = box.Download(cmd.Context(), from.path, to.path)
	}
	return interrupted(cmd, err)
}
