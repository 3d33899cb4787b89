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
		Short: "Print what a container printed",
		Long: `Print what a container of a pod printed.

POD is a pod's name as its manifest has it, or with the suffix -NODE. A pod of
one container needs no --container; init containers can be named there too.

With --follow it goes on over restarts of the container, until that has ended
for good, its pod is replaced or removed, or Ctrl-C.`,
		Example: `  podstead logs web
  podstead logs -f --tail 20 web
  podstead logs --previous -c sidecar web`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runLogs(cmd, o, args[0]) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "", "the pod's `namespace`, needed if several have a pod of this name")
	f.StringVarP(&o.container, "container", "c", "", "the `container`, needed if the pod has several")
	f.BoolVarP(&o.follow, "follow", "f", false, "go on with what is printed from now on")
	f.BoolVarP(&o.previous, "previous", "p", false, "of the instance that ended last, before the one that runs")
	f.Int64Var(&o.tail, "tail", -1, "only the last `lines`; -1 for all")
	f.DurationVar(&o.since, "since", 0, "only what is newer than this, such as 10m or 2h")
	f.BoolVar(&o.timestamps, "timestamps", false, "the time before each line")
	return cmd
}

func runLogs(cmd *cobra.Command, o logsOptions, name string) error {
	switch {
	case o.tail < -1:
		return usageError(fmt.Errorf("--tail %d: must be 0 or more, or -1 for all", o.tail))
	case o.since < 0:
		return usageError(fmt.Errorf("--since %s: must be more than 0", o.since))
	}
	err := printLogs(cmd, o, name)
	if o.follow && errors.Is(cmd.Context().Err(), context.Canceled) {
		return nil // Ctrl-C is how one leaves
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
		var refused *client.StatusError
		if errors.As(err, &refused) && refused.Message != "" {
			return errors.New(refused.Message) // it says what is wrong in full
		}
		return err
	}
	defer body.Close()
	if _, err := io.Copy(cmd.OutOrStdout(), body); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("podstead ended or could not read on; the container may run on: try again")
		}
		return fmt.Errorf("cannot print the log: %w", err)
	}
	return nil
}

// query are the parameters of the daemon's API, which are the kubelet's.
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
