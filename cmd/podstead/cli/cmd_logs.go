package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/objects"
)

// logsOptions are the flags of logs.
type logsOptions struct {
	socket     string
	namespace  string
	container  string
	follow     bool
	previous   bool
	tail       int64
	since      time.Duration
	timestamps bool
}

func logsCommand() *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use:   "logs POD",
		Short: "Print the logs for a container in a pod",
		Long: `Print the logs for a container in a pod.

POD is the name in the pod's manifest, or that name with the suffix -NODE. If the pod
has only one container, --container is optional; init containers can be given too.

--follow continues across restarts of the container, until it will not be restarted
again, its pod is replaced or deleted, or Ctrl-C is pressed.`,
		Example: `  # Print the logs of pod web
  podstead logs web

  # Print the last 20 lines and follow the log
  podstead logs -f --tail 20 web

  # Print the logs of the previous instance of container sidecar
  podstead logs --previous -c sidecar web`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runLogs(cmd, o, args[0]) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "", "`namespace` of the pod; required if pods in several namespaces have this name")
	f.StringVarP(&o.container, "container", "c", "", "`name` of the container; required if the pod has more than one")
	f.BoolVarP(&o.follow, "follow", "f", false, "stream the log as it is written")
	f.BoolVarP(&o.previous, "previous", "p", false, "print the log of the previous instance of the container")
	f.Int64Var(&o.tail, "tail", -1, "number of most recent `lines` to print; -1 prints all")
	f.DurationVar(&o.since, "since", 0, "only print logs newer than this `duration`, such as 10m or 2h")
	f.BoolVar(&o.timestamps, "timestamps", false, "include a timestamp on each line")
	return cmd
}

func runLogs(cmd *cobra.Command, o logsOptions, name string) error {
	switch {
	case o.tail < -1:
		return usageError(fmt.Errorf("--tail %d: must be 0 or more, or -1 for all", o.tail))
	case o.since < 0:
		return usageError(fmt.Errorf("--since %s: must be 0 or more", o.since))
	}
	err := printLogs(cmd, o, name)
	if o.follow && errors.Is(cmd.Context().Err(), context.Canceled) {
		return nil // Ctrl-C is the normal way to stop following
	}
	return err
}

func printLogs(cmd *cobra.Command, o logsOptions, name string) error {
	c := client.New(o.socket)
	pod, err := objects.FindPod(cmd.Context(), c, o.namespace, name, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if o.container, err = objects.ChooseContainer(pod, o.container); err != nil {
		return err
	}
	path := fmt.Sprintf("/containerLogs/%s/%s/%s?%s", url.PathEscape(pod.Namespace), url.PathEscape(pod.Name), url.PathEscape(o.container), o.query())
	body, err := c.Open(cmd.Context(), path)
	if err != nil {
		return client.MessageOnly(err)
	}
	defer body.Close()
	if _, err := io.Copy(cmd.OutOrStdout(), body); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("connection to the daemon lost; the container may still be running, try again")
		}
		return fmt.Errorf("failed to print log: %w", err)
	}
	return nil
}

// query returns the parameters of the daemon's API, which are those of the kubelet.
func (o logsOptions) query() string {
	q := url.Values{}
	for name, on := range map[string]bool{"follow": o.follow, "previous": o.previous, "timestamps": o.timestamps} {
		if on {
			q.Set(name, "true")
		}
	}
	if o.tail >= 0 {
		q.Set("tailLines", strconv.FormatInt(o.tail, 10))
	}
	if o.since > 0 {
		q.Set("sinceTime", time.Now().Add(-o.since).UTC().Format(time.RFC3339Nano))
	}
	return q.Encode()
}
