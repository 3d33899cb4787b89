package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/output"
)

// autoUpdateOptions are the flags of auto-update.
type autoUpdateOptions struct {
	socket, namespace, format string
	dryRun                    bool
}

func autoUpdateCommand() *cobra.Command {
	var o autoUpdateOptions
	cmd := &cobra.Command{
		Use:   "auto-update [POD...]",
		Short: "Update the images of pods",
		Long: `Check for newer images of the pods with the annotation podstead.io/auto-update, or of
some of them, and replace those that have one. The daemon does the same on a schedule;
this command does it at once, also outside of the maintenance windows.

The policy registry compares the running image with that of the tag at its registry, the
policy local with the image that the runtime has under the name. A pod that does not
become ready with a newer image is rolled back, and that image is not tried again.

  Current      the container runs the newest image
  Available    there is a newer image (--dry-run)
  Updating     the pod is being replaced; podstead rollout status shows the progress
  RolledBack   the newest image failed and was rolled back
  Failed       the newest image could not be determined, or not be rolled out
  Skipped      the image of this container is not updated`,
		Example: `  # Show which pods have a newer image
  podstead auto-update --dry-run

  # Update one pod
  podstead auto-update web`,
		RunE: func(cmd *cobra.Command, args []string) error { return runAutoUpdate(cmd, o, podArgs(args)) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "",
		"`namespace` of the pods; required if pods in several namespaces have this name")
	f.BoolVar(&o.dryRun, "dry-run", false, "only check, and print what would be updated")
	f.StringVarP(&o.format, "output", "o", "", "output format: json or yaml")
	return cmd
}

func runAutoUpdate(cmd *cobra.Command, o autoUpdateOptions, names []string) error {
	if !slices.Contains([]string{"", "json", "yaml"}, o.format) {
		return usageError(fmt.Errorf("--output %q: must be json or yaml", o.format))
	}
	c := client.New(o.socket)
	var pods []string
	for _, name := range names {
		pod, err := objects.FindPod(cmd.Context(), c, o.namespace, name, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		pods = append(pods, pod.Namespace+"/"+pod.Name)
	}
	list, err := c.CheckUpdates(cmd.Context(), pods, o.dryRun)
	if err != nil {
		return err
	}
	failed := false
	for _, u := range list {
		for _, container := range u.Containers {
			failed = failed || container.State == api.UpdateFailed
			if container.Message != "" && o.format == "" {
				cmd.PrintErrf("%s/%s: container %s: %s\n", u.Namespace, u.Name, container.Container, container.Message)
			}
		}
	}
	if len(list) == 0 && o.format == "" {
		cmd.PrintErrln("no pod has the annotation podstead.io/auto-update")
		return nil
	}
	print := func() error { return objects.AutoUpdateTable(list).Print(cmd.OutOrStdout()) }
	if o.format != "" {
		print = func() error { return output.PrintEncoded(cmd.OutOrStdout(), list, o.format) }
	}
	if err := print(); err != nil {
		return err
	}
	if failed {
		return &ExitError{Code: ExitFailed}
	}
	return nil
}
