package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/wait"
)

// restartOptions are the flags of restart.
type restartOptions struct {
	socket, namespace string
	wait              bool
	timeout           time.Duration
}

func restartCommand() *cobra.Command {
	var o restartOptions
	cmd := &cobra.Command{
		Use:   "restart [pod] NAME...",
		Short: "Restart a pod",
		Long: `Restart a pod: terminate it, with its grace period and preStop hooks, and start it
again from its manifest. Restart counts are kept. A pod that has completed or failed is
started again too.`,
		Example: `  # Restart a pod
  podstead restart web

  # Restart a pod and wait until it is ready
  podstead restart pod web --wait`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(podArgs(args)) == 0 {
				return errors.New("no pod given")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runRestart(cmd, o, podArgs(args)) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "",
		"`namespace` of the pod; required if pods in several namespaces have this name")
	f.BoolVar(&o.wait, "wait", false, "wait until the pod has restarted and is ready")
	durationVar(f, &o.timeout, "timeout", defaultTimeout, "how long to wait")
	return cmd
}

// podArgs returns the names of pods without the type, which may precede them.
func podArgs(args []string) []string {
	if len(args) > 0 && objects.PodKind().Matches(args[0]) {
		return args[1:]
	}
	return args
}

func runRestart(cmd *cobra.Command, o restartOptions, names []string) error {
	c := client.New(o.socket)
	var pods []*v1.Pod
	for _, name := range names {
		pod, err := objects.FindPod(cmd.Context(), c, o.namespace, name, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		pods = append(pods, pod)
	}
	for _, pod := range pods {
		if _, err := c.RestartPod(cmd.Context(), pod.Namespace, pod.Name); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "pod/%s restarting\n", pod.Name); err != nil {
			return err
		}
	}
	if !o.wait {
		return nil
	}
	w := wait.Waiter{Client: c, Out: cmd.OutOrStdout(), ErrOut: cmd.ErrOrStderr(), Timeout: o.timeout,
		Kind: objects.PodKind(), Verb: "restarted"}
	for _, pod := range pods {
		w.Targets = append(w.Targets, &wait.Target{Namespace: pod.Namespace, Name: pod.Name, Condition: wait.Restarted(pod)})
	}
	return w.Run(cmd.Context())
}
