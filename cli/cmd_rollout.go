package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/output"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/cli/wait"
)

// rolloutOptions are the flags of the rollout commands.
type rolloutOptions struct {
	socket, namespace, format, revision string
	watch                               bool
	timeout                             time.Duration
}

func rolloutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Manage the rollout of a pod",
		Long: `Manage the rollout of a pod: which revision of its manifest is in effect.

A changed pod is prepared while the previous revision runs on, and replaces it then. With
the annotation podstead.io/rollback-after, the last revision that was ready comes back if
the new one does not become ready in time.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var socket string
	socketFlag(cmd.Flags(), &socket)
	cmd.AddCommand(rolloutStatusCommand(), rolloutHistoryCommand(), rolloutUndoCommand(), rolloutRetryCommand())
	return cmd
}

// flags adds the flags that all rollout commands have.
func (o *rolloutOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "",
		"`namespace` of the pod; required if pods in several namespaces have this name")
}

func (o *rolloutOptions) outputFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "output format: json or yaml")
}

func (o *rolloutOptions) waitFlags(cmd *cobra.Command) {
	durationVar(cmd.Flags(), &o.timeout, "timeout", defaultTimeout, "how long to wait")
}

// onePod checks that the arguments name one pod.
func onePod(_ *cobra.Command, args []string) error {
	if n := len(podArgs(args)); n != 1 {
		return fmt.Errorf("%d pods given; specify one", n)
	}
	return nil
}

// find returns the client and the pod that the arguments name.
func (o *rolloutOptions) find(cmd *cobra.Command, args []string) (*client.Client, *v1.Pod, error) {
	if !slices.Contains([]string{"", "json", "yaml"}, o.format) {
		return nil, nil, usageError(fmt.Errorf("--output %q: must be json or yaml", o.format))
	}
	c := client.New(o.socket)
	pod, err := objects.FindPod(cmd.Context(), c, o.namespace, podArgs(args)[0], cmd.ErrOrStderr())
	return c, pod, err
}

func rolloutStatusCommand() *cobra.Command {
	var o rolloutOptions
	cmd := &cobra.Command{
		Use:   "status [pod] [NAME]",
		Short: "Show the status of the rollout",
		Long: `Show the status of a pod's rollout, and wait until it has ended, or list the rollouts of
all pods.

The exit code is 0 if the revision of the manifest, or another one on request, is in effect
and ready or has succeeded, 1 if it was rolled back, has failed or cannot be resized, or if
its manifest is invalid, and 124 if the rollout is still in progress, or the pod not ready
or not resized, after --timeout.

  Stable        the revision of the manifest is in effect
  Preparing     its images and objects are prepared, the previous one runs on
  Progressing   the revision in effect must become ready
  RollingBack   it failed, and the last good one is being started
  RolledBack    an earlier revision is in effect, since that of the manifest failed
  Undone        an earlier revision is in effect on request`,
		Example: `  # Wait until a changed pod has been rolled out
  podstead rollout status web

  # List all rollouts
  podstead rollout status`,
		Args: func(_ *cobra.Command, args []string) error {
			if n := len(podArgs(args)); n > 1 {
				return fmt.Errorf("%d pods given; specify one, or none for all", n)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(podArgs(args)) == 0 {
				return listRollouts(cmd, o)
			}
			return runRolloutStatus(cmd, o, args)
		},
	}
	o.flags(cmd)
	o.outputFlag(cmd)
	o.waitFlags(cmd)
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", true, "wait until the rollout has ended")
	return cmd
}

func listRollouts(cmd *cobra.Command, o rolloutOptions) error {
	if !slices.Contains([]string{"", "json", "yaml"}, o.format) {
		return usageError(fmt.Errorf("--output %q: must be json or yaml", o.format))
	}
	all, err := client.New(o.socket).Rollouts(cmd.Context())
	if err != nil {
		return err
	}
	list := slices.DeleteFunc(all, func(r api.Rollout) bool { return o.namespace != "" && r.Namespace != o.namespace })
	if o.format != "" {
		return output.PrintEncoded(cmd.OutOrStdout(), list, o.format)
	}
	return objects.RolloutTable(list, time.Now()).Print(cmd.OutOrStdout())
}

func runRolloutStatus(cmd *cobra.Command, o rolloutOptions, args []string) error {
	c, pod, err := o.find(cmd, args)
	if err != nil {
		return err
	}
	r := &wait.Rollout{Client: c, ErrOut: cmd.ErrOrStderr(), Pod: pod, Timeout: o.timeout}
	var last *api.Rollout
	if o.watch {
		last, err = r.Ended(cmd.Context())
	} else {
		last, err = objects.FindRollout(cmd.Context(), c, pod.Namespace, pod.Name)
	}
	if err != nil {
		return err
	}
	notReady := ""
	if !o.watch && o.format == "" && last != nil && last.Ended() {
		if notReady, err = wait.NotReady(cmd.Context(), c, last); err != nil {
			return err
		}
	}
	return reportRollout(cmd, o, pod, last, notReady)
}

// reportRollout prints the status of a rollout, with why the pod is not ready. That of a pod that
// was rolled back is an error.
func reportRollout(cmd *cobra.Command, o rolloutOptions, pod *v1.Pod, r *api.Rollout, notReady string) error {
	if r == nil {
		return fmt.Errorf("pod %s has no rollout; pods of an API server have none", pod.Name)
	}
	if o.format != "" {
		if err := output.PrintEncoded(cmd.OutOrStdout(), r, o.format); err != nil {
			return err
		}
	} else {
		text := objects.RolloutSummary(r, time.Now())
		switch {
		case notReady != "":
			text = string(r.State) + ": revision " + r.Revision + " is in effect, but " + terminal.OneLine(notReady)
		case r.State == api.RolloutStable:
			text = "successfully rolled out, revision " + r.Revision
			if r.Message != "" {
				text += ": " + objects.RolloutCause(r)
			}
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "pod/%s %s\n", r.Name, text); err != nil {
			return err
		}
	}
	if r.State == api.RolloutRolledBack {
		return &ExitError{Code: ExitFailed}
	}
	return nil
}

func rolloutHistoryCommand() *cobra.Command {
	var o rolloutOptions
	cmd := &cobra.Command{
		Use:   "history [pod] NAME",
		Short: "View the rollout history",
		Long: `View the revisions of a pod, the newest first: the one that is to replace the pod, if
any, and those that were in effect on this node. The last ten are kept.

  in effect    it runs
  manifest     it is the one in the manifest
  ready        it was ready, or has succeeded
  rejected     it failed and was rolled back
  preparing    it is being prepared, such as by pulling its images
  waiting      it waits, such as for a pod that it depends on
  failed       it could not be prepared, and is tried again`,
		Example: `  # Show the revisions of a pod
  podstead rollout history web`,
		Args: onePod,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, pod, err := o.find(cmd, args)
			if err != nil {
				return err
			}
			list, err := c.RolloutHistory(cmd.Context(), pod.Namespace, pod.Name)
			if err != nil {
				return err
			}
			if o.format != "" {
				return output.PrintEncoded(cmd.OutOrStdout(), list, o.format)
			}
			return objects.HistoryTable(list, time.Now()).Print(cmd.OutOrStdout())
		},
	}
	o.flags(cmd)
	o.outputFlag(cmd)
	return cmd
}

func rolloutUndoCommand() *cobra.Command {
	var o rolloutOptions
	cmd := &cobra.Command{
		Use:   "undo [pod] NAME",
		Short: "Undo a rollout",
		Long: `Put an earlier revision of a pod into effect, although its manifest says otherwise. It
stays in effect until the manifest changes, or until podstead rollout retry.

While a changed pod is being prepared, that change is dropped, and the pod that runs stays
as it is.`,
		Example: `  # Return to the previous revision that was ready
  podstead rollout undo web

  # Return to a revision of podstead rollout history
  podstead rollout undo web --to-revision=5d41402abc`,
		Args: onePod,
		RunE: func(cmd *cobra.Command, args []string) error {
			return requestRollout(cmd, o, args, func(ctx context.Context, c *client.Client, pod *v1.Pod) (api.Rollout, error) {
				return c.UndoRollout(ctx, pod.Namespace, pod.Name, o.revision)
			})
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&o.revision, "to-revision", "",
		"the `revision` to return to (default: the previous one that was ready)")
	return cmd
}

func rolloutRetryCommand() *cobra.Command {
	var o rolloutOptions
	cmd := &cobra.Command{
		Use:   "retry [pod] NAME",
		Short: "Retry a rollout",
		Long:  `Put the revision of the manifest into effect again, after it was rolled back or undone.`,
		Example: `  # Try the revision of the manifest once more
  podstead rollout retry web`,
		Args: onePod,
		RunE: func(cmd *cobra.Command, args []string) error {
			return requestRollout(cmd, o, args, func(ctx context.Context, c *client.Client, pod *v1.Pod) (api.Rollout, error) {
				return c.RetryRollout(ctx, pod.Namespace, pod.Name)
			})
		},
	}
	o.flags(cmd)
	return cmd
}

// requestRollout asks the daemon to change which revision is in effect.
func requestRollout(cmd *cobra.Command, o rolloutOptions, args []string,
	request func(context.Context, *client.Client, *v1.Pod) (api.Rollout, error)) error {
	c, pod, err := o.find(cmd, args)
	if err != nil {
		return err
	}
	r, err := request(cmd.Context(), c, pod)
	if err != nil {
		return err
	}
	if r.State == "" {
		return errors.New("the daemon reported no rollout")
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "pod/%s %s; podstead rollout status shows the progress\n", r.Name,
		objects.RolloutSummary(&r, time.Now()))
	return err
}
