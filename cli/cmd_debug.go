package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/wait"
	"github.com/podstead/podstead/manifest"
)

// debugOptions are the flags of debug.
type debugOptions struct {
	streamOptions
	image, pullPolicy, target, profile string
	env                                []string
	attach                             bool
	timeout                            time.Duration
}

func debugCommand() *cobra.Command {
	var o debugOptions
	cmd := &cobra.Command{
		Use:   "debug POD --image IMAGE [-- COMMAND [ARG...]]",
		Short: "Debug a pod with an additional container",
		Long: `Run an ephemeral container in a running pod: with an image of its own, in the network
of the pod, and with --target among the processes of one of its containers. The pod
goes on unchanged, and its manifest does not change.

An ephemeral container is never restarted. It outlives a restart of podstead, and is
gone when the pod is restarted or its manifest changes. With -i or --attach the
command ends with the container, and with its exit code.

Profiles give the container what it needs: general allows to trace processes, netadmin
to change the network, sysadmin all capabilities; baseline gives nothing, and
restricted takes away what can be.`,
		Example: `  # Start a shell in the pod web, which sees the processes of its container
  podstead debug -it web --image busybox --target web

  # Show the connections of the pod web
  podstead debug web --image nicolaka/netshoot --attach -- ss -tnp

  # Capture packets of the pod in the background, and read the output later
  podstead debug web -c dump --image nicolaka/netshoot --profile netadmin -- tcpdump -i any
  podstead logs web -c dump`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case len(args) == 0 || dash == 0:
				return errors.New("no pod given; usage: podstead debug POD --image IMAGE")
			case dash < 0 && len(args) > 1, dash > 1:
				return fmt.Errorf("unexpected argument %q; a command follows after --", args[1])
			case strings.HasPrefix(args[0], "node/"):
				return errors.New("podstead debug is for pods; debug the node in a shell of the host, or with kubectl debug " +
					"node/NAME")
			case o.image == "":
				return errors.New("no image given; name one with --image, such as --image busybox")
			}
			return checkProfile(o.profile)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runDebug(cmd, o, args[0], args[1:]) },
	}
	f := cmd.Flags()
	o.addFlags(cmd)
	f.Lookup("container").Usage = "`name` of the new container; generated if it is not given"
	f.StringVar(&o.image, "image", "", "`image` of the new container")
	f.StringVar(&o.pullPolicy, "image-pull-policy", "", "when to pull the image: `policy` Always, IfNotPresent or Never")
	f.StringVar(&o.target, "target", "", "`container` whose processes the new one sees")
	f.StringVar(&o.profile, "profile", profileNames[0],
		"what the new container may do: `profile` general, baseline, restricted, netadmin or sysadmin")
	f.StringArrayVar(&o.env, "env", nil, "environment variable `NAME=VALUE` of the new container; may be repeated")
	f.BoolVar(&o.attach, "attach", false, "print the output of the new container until it ends; implied by --stdin")
	durationVar(f, &o.timeout, "timeout", defaultTimeout, "how long to wait for the start of the new container")
	_ = cmd.RegisterFlagCompletionFunc("target", completeContainers) // the flag exists
	_ = cmd.RegisterFlagCompletionFunc("container", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("profile", fixed(profileNames...))
	_ = cmd.RegisterFlagCompletionFunc("image-pull-policy",
		fixed(string(v1.PullAlways), string(v1.PullIfNotPresent), string(v1.PullNever)))
	return cmd
}

// ephemeral returns the container that the flags describe.
func (o *debugOptions) ephemeral(pod *v1.Pod, command []string) (*v1.EphemeralContainer, error) {
	c := &v1.EphemeralContainer{TargetContainerName: o.target}
	c.Name, c.Image, c.ImagePullPolicy, c.Command = o.container, o.image, v1.PullPolicy(o.pullPolicy), command
	if c.Name == "" {
		c.Name = "debugger-" + rand.String(5)
	}
	c.TTY = o.tty && o.input
	c.Stdin, c.StdinOnce = o.input, o.input && !c.TTY
	c.TerminationMessagePolicy = v1.TerminationMessageReadFile
	c.SecurityContext = debugProfiles[o.profile](pod)
	for _, text := range o.env {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usageError(fmt.Errorf("--env %q: must be NAME=VALUE", text))
		}
		c.Env = append(c.Env, v1.EnvVar{Name: name, Value: value})
	}
	return c, nil
}

func runDebug(cmd *cobra.Command, o debugOptions, name string, command []string) error {
	c := client.New(o.socket)
	pod, err := objects.FindPod(cmd.Context(), c, o.namespace, name, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	added, err := o.ephemeral(pod, command)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"spec": map[string]any{"ephemeralContainers": []*v1.EphemeralContainer{added}}})
	if err != nil {
		return err
	}
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", url.PathEscape(pod.Namespace), url.PathEscape(pod.Name))
	if err := c.Patch(cmd.Context(), path+"/ephemeralcontainers", string(types.StrategicMergePatchType), patch,
		pod); err != nil {
		return err
	}
	base := manifest.BaseName(pod)
	if !o.input && !o.attach {
		_, err := fmt.Fprintf(cmd.OutOrStdout(),
			"container %s added to pod/%s; see its output with: podstead logs %s -c %s\n", added.Name, pod.Name, base,
			added.Name)
		return err
	}
	if o.container == "" {
		cmd.PrintErrf("Container %s is added to pod/%s.\n", added.Name, pod.Name)
	}
	ended, err := o.awaitStart(cmd, c, pod, added.Name)
	if err != nil {
		return err
	}
	o.container = added.Name
	if o.input && !ended {
		if err := runAttach(cmd, o.streamOptions, pod.Name); err != nil || cmd.Context().Err() != nil {
			return err
		}
	} else {
		log := logStream{namespace: pod.Namespace, pod: pod.Name, container: added.Name}
		if err := log.print(cmd.Context(), c, logsOptions{follow: true, tail: -1}, cmd.OutOrStdout()); err != nil {
			return err
		}
	}
	return o.exitCode(cmd, c, pod, added.Name)
}

// cannotStart are the reasons for which a container does not start without a change. podstead
// still tries again.
var cannotStart = map[string]bool{
	"ErrImagePull": true, "ImagePullBackOff": true, "InvalidImageName": true, "ErrImageNeverPull": true,
	"CreateContainerConfigError": true, "CreateContainerError": true, "PodFeatureUnsupported": true,
}

// awaitStart waits until an ephemeral container runs, and reports whether it has ended already.
func (o *debugOptions) awaitStart(cmd *cobra.Command, c *client.Client, pod *v1.Pod, name string) (ended bool,
	err error) {
	err = o.wait(cmd, c, pod, o.timeout, func(p *v1.Pod, st *v1.ContainerStatus) (bool, string, error) {
		switch {
		case st.State.Running != nil, st.State.Terminated != nil:
			ended = st.State.Terminated != nil
			return true, "", nil
		case st.State.Waiting == nil:
			return false, "waiting for its start", nil
		}
		w := st.State.Waiting
		text := strings.TrimRight(fmt.Sprintf("container %s: %s: %s", name, w.Reason, w.Message), ": ")
		if cannotStart[w.Reason] {
			return false, "", fmt.Errorf("%s; podstead keeps trying until the pod is restarted", text)
		}
		if p.Status.Reason != "" {
			text += "; pod: " + strings.TrimRight(p.Status.Reason+": "+p.Status.Message, ": ")
		}
		return false, text, nil
	}, name)
	return ended, err
}

// exitCodeTimeout limits the wait for the exit code of a container whose output has ended.
const exitCodeTimeout = 30 * time.Second

// exitCode returns the exit code of an ephemeral container that has ended as an ExitError.
func (o *debugOptions) exitCode(cmd *cobra.Command, c *client.Client, pod *v1.Pod, name string) error {
	var end *v1.ContainerStateTerminated
	err := o.wait(cmd, c, pod, exitCodeTimeout, func(_ *v1.Pod, st *v1.ContainerStatus) (bool, string, error) {
		end = st.State.Terminated
		return end != nil, "container " + name + " is ending", nil
	}, name)
	switch {
	case err != nil:
		return err
	case end.ExitCode == 0:
		return nil
	case end.Message != "":
		return &ExitError{Code: int(end.ExitCode),
			Err: fmt.Errorf("container %s ended with code %d: %s: %s", name, end.ExitCode, end.Reason, end.Message)}
	}
	return &ExitError{Code: int(end.ExitCode), Err: fmt.Errorf("container %s ended with code %d", name, end.ExitCode)}
}

// wait waits for a status of an ephemeral container. It fails when the pod is gone or runs without it.
func (o *debugOptions) wait(cmd *cobra.Command, c *client.Client, pod *v1.Pod, timeout time.Duration,
	check func(*v1.Pod, *v1.ContainerStatus) (bool, string, error), name string) error {
	gone := fmt.Errorf("the pod was restarted or replaced, and container %s is gone", name)
	w := wait.Waiter{Client: c, Out: io.Discard, ErrOut: cmd.ErrOrStderr(), Timeout: timeout, Kind: objects.PodKind()}
	w.Targets = []*wait.Target{{Namespace: pod.Namespace, Name: pod.Name,
		Condition: func(object *objects.Object) (bool, string, error) {
			p, err := objects.DecodePod(object)
			if err != nil || p == nil || p.UID != pod.UID {
				return false, "", errors.Join(err, gone)
			}
			known := false
			for i := range p.Spec.EphemeralContainers {
				known = known || p.Spec.EphemeralContainers[i].Name == name
			}
			if !known {
				return false, "", gone
			}
			for i := range p.Status.EphemeralContainerStatuses {
				if st := &p.Status.EphemeralContainerStatuses[i]; st.Name == name {
					return check(p, st)
				}
			}
			return check(p, &v1.ContainerStatus{Name: name})
		}}}
	return w.Run(cmd.Context())
}
