package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/api/client"
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
	sinceTime  string
	timestamps bool
	// selector selects pods by labels. allContainers and prefix are about several logs.
	selector              string
	allContainers, prefix bool
}

func logsCommand() *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use:   "logs POD | -l SELECTOR",
		Short: "Print the logs for a container in a pod",
		Long: `Print the logs for a container in a pod, or for several.

POD is the name in the pod's manifest, or that name with the suffix -NODE. If the pod
has only one container, --container is optional; init containers can be given too.

--follow continues across restarts of the container, until it will not be restarted
again, its pod is replaced or deleted, or Ctrl-C is pressed.

With --selector or --all-containers the logs are printed one after the other, or with
--follow as their lines come; --prefix shows where each line is from.`,
		Example: `  # Print the logs of pod web
  podstead logs web

  # Print the last 20 lines and follow the log
  podstead logs -f --tail 20 web

  # Print the logs of the previous instance of container sidecar
  podstead logs --previous -c sidecar web

  # Follow the logs of all containers of the pods with a label
  podstead logs -f -l app=web --all-containers --prefix`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case o.selector != "" && len(args) > 0:
				return errors.New("give either a pod or --selector")
			case o.selector == "" && len(args) == 0:
				return errors.New("POD is missing; usage: podstead logs POD")
			case len(args) > 1:
				return fmt.Errorf("unexpected number of arguments (%d); give one POD, or select several with --selector", len(args))
			case o.allContainers && o.container != "":
				return errors.New("give either --container or --all-containers")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runLogs(cmd, o, args) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "",
		"`namespace` of the pod; required if pods in several namespaces have this name")
	f.StringVarP(&o.container, "container", "c", "", "`name` of the container; required if the pod has more than one")
	f.BoolVarP(&o.follow, "follow", "f", false, "stream the log as it is written")
	f.BoolVarP(&o.previous, "previous", "p", false, "print the log of the previous instance of the container")
	f.Int64Var(&o.tail, "tail", -1, "number of most recent `lines` to print; -1 prints all")
	f.Var((*durationValue)(&o.since), "since", "only print logs newer than this `duration`, such as 10m, 2h or 3d")
	f.StringVar(&o.sinceTime, "since-time", "", "only print logs newer than this `time`, such as 2026-01-31T12:00:00Z")
	f.StringVarP(&o.selector, "selector", "l", "",
		"print the logs of all pods with these labels: a `selector`, such as app=web")
	f.BoolVar(&o.allContainers, "all-containers", false,
		"print the logs of all containers of the pod, init containers included")
	f.BoolVar(&o.prefix, "prefix", false, "begin each line with its pod and container")
	f.BoolVar(&o.timestamps, "timestamps", false, "include a timestamp on each line")
	return cmd
}

func runLogs(cmd *cobra.Command, o logsOptions, args []string) error {
	switch {
	case o.tail < -1:
		return usageError(fmt.Errorf("--tail %d: must be 0 or more, or -1 for all", o.tail))
	case o.since < 0:
		return usageError(fmt.Errorf("--since %s: must be 0 or more", o.since))
	case o.since > 0 && o.sinceTime != "":
		return usageError(errors.New("give either --since or --since-time"))
	}
	if o.sinceTime != "" {
		if _, err := time.Parse(time.RFC3339Nano, o.sinceTime); err != nil {
			return usageError(
				fmt.Errorf("--since-time %q: must be a time with its zone (RFC 3339), such as 2026-01-31T12:00:00Z", o.sinceTime))
		}
	}
	err := printLogs(cmd, o, args)
	if o.follow && errors.Is(cmd.Context().Err(), context.Canceled) {
		return nil // Ctrl-C is the normal way to stop following
	}
	return err
}

func printLogs(cmd *cobra.Command, o logsOptions, args []string) error {
	c := client.New(o.socket)
	streams, err := logStreams(cmd, c, o, args)
	switch {
	case err != nil:
		return err
	case len(streams) == 1 && !o.prefix:
		return streams[0].print(cmd.Context(), c, o, cmd.OutOrStdout())
	}
	return printStreams(cmd, c, o, streams)
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
	if o.sinceTime != "" {
		q.Set("sinceTime", o.sinceTime)
	}
	return q.Encode()
}
