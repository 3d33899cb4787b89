package cli

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
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
		Short: "End a pod and run it again",
		Long: `End a pod, with its grace period and its preStop hooks, and run it again as its
manifest says. Restart counts go on. A pod whose restartPolicy has ended it is
not run again: remove its manifest and add it again for that.`,
		Example: `  podstead restart web
  podstead restart pod web --wait`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(podArgs(args)) == 0 {
				return errors.New("no pod is named")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return restart(cmd, o, podArgs(args)) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "", "the pod's `namespace`, needed if several have a pod of this name")
	f.BoolVar(&o.wait, "wait", false, "wait until it runs again and is ready")
	f.DurationVar(&o.timeout, "timeout", defaultTimeout, "how long to wait")
	return cmd
}

// podArgs are the names of pods, after the type where that is given.
func podArgs(args []string) []string {
	if len(args) > 0 && podKind().is(args[0]) {
		return args[1:]
	}
	return args
}

func restart(cmd *cobra.Command, o restartOptions, names []string) error {
	c := newClient(o.socket)
	var pods []*v1.Pod
	for _, name := range names {
		pod, err := onePod(cmd, c, o.namespace, name)
		if err != nil {
			return err
		}
		pods = append(pods, pod)
	}
	for _, pod := range pods {
		var answer struct{ Name string }
		path := fmt.Sprintf("/podstead/v1/namespaces/%s/pods/%s/restart", url.PathEscape(pod.Namespace), url.PathEscape(pod.Name))
		if err := c.post(cmd.Context(), path, &answer); err != nil {
			var refused *refusal
			if errors.As(err, &refused) && refused.text != "" {
				return errors.New(refused.text) // it says what is wrong in full
			}
			return err
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "pod/%s restarts\n", pod.Name); err != nil {
			return err
		}
	}
	if !o.wait {
		return nil
	}
	w := waiter{cmd: cmd, client: c, timeout: o.timeout, kind: podKind(), verb: "runs again"}
	for _, pod := range pods {
		w.targets = append(w.targets, &target{namespace: pod.Namespace, name: pod.Name, until: untilRenewed(pod)})
	}
	return w.run(cmd.Context())
}

// untilRenewed is done when each container is another one than before, and the
// pod is ready or has done its work.
func untilRenewed(before *v1.Pod) until {
	old := containerIDs(before)
	return func(o *object) (bool, string, error) {
		p, err := podOf(o)
		if err != nil || p == nil {
			return false, "is gone", err
		}
		for id := range containerIDs(p) {
			if old[id] {
				return false, "ends", nil
			}
		}
		if slices.ContainsFunc(p.Status.ContainerStatuses, func(s v1.ContainerStatus) bool { return s.ContainerID == "" }) {
			return false, progressOf(p), nil
		}
		return untilReady(o)
	}
}

func containerIDs(p *v1.Pod) map[string]bool {
	ids := map[string]bool{}
	for _, s := range p.Status.ContainerStatuses {
		if s.ContainerID != "" {
			ids[s.ContainerID] = true
		}
	}
	return ids
}
