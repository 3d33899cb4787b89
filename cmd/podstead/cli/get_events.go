package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"
)

func getEventsCommand() *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use:     "events [POD]",
		Aliases: []string{"event", "ev"},
		Short:   "List what happened, newest last",
		Long: `List what happened to this machine and its pods, newest last.

POD is a pod's name as its manifest has it, or with the suffix -NODE; the pod
may be gone. The daemon keeps the newest events of a week, over its restarts.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return getEvents(cmd, o, args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.socket, "api-socket", DefaultSocket, "the daemon's `socket`")
	f.StringVarP(&o.namespace, "namespace", "n", "", "only events of this `namespace`")
	f.BoolP("all-namespaces", "A", true, "all namespaces, as without --namespace")
	f.StringVarP(&o.output, "output", "o", "", "json or yaml")
	return cmd
}

func getEvents(cmd *cobra.Command, o getOptions, args []string) error {
	if !slices.Contains([]string{"", "json", "yaml"}, o.output) {
		return fmt.Errorf("--output %q: must be json or yaml", o.output)
	}
	pod := ""
	if len(args) == 1 {
		pod = bareName(args[0])
	}
	list, err := askEvents(cmd, newClient(o.socket), o.namespace, pod)
	if err != nil {
		return err
	}
	switch {
	case o.output != "":
		return printEncoded(cmd.OutOrStdout(), list, o.output)
	case len(list.Items) == 0:
		cmd.PrintErrf("no events%s\n", inNamespace(o.namespace))
		return nil
	}
	return eventTable(list.Items, time.Now(), true).print(cmd.OutOrStdout())
}

// askEvents asks for events, all if namespace and pod are empty.
func askEvents(cmd *cobra.Command, c *client, namespace, pod string) (*v1.EventList, error) {
	q := url.Values{}
	if namespace != "" {
		q.Set("namespace", namespace)
	}
	if pod != "" {
		q.Set("pod", pod)
	}
	var list v1.EventList
	if err := c.get(cmd.Context(), "/podstead/v1/events?"+q.Encode(), &list); err != nil {
		return nil, err
	}
	return &list, nil
}

// eventTable has kubectl's columns; without objects, those of describe.
func eventTable(events []v1.Event, now time.Time, objects bool) table {
	t := table{head: []string{"TYPE", "REASON", "AGE", "FROM", "MESSAGE"}}
	if objects {
		t.head = []string{"NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"}
	}
	for i := range events {
		e := &events[i]
		age := eventAge(e, now)
		row := []string{e.Type, e.Reason, age, orNone(e.Source.Component), oneLine(e.Message)}
		if objects {
			object := strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name
			row = []string{e.Namespace, age, e.Type, e.Reason, object, oneLine(e.Message)}
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func eventAge(e *v1.Event, now time.Time) string {
	last := duration.HumanDuration(now.Sub(e.LastTimestamp.Time))
	if e.Count <= 1 {
		return last
	}
	return fmt.Sprintf("%s (x%d over %s)", last, e.Count, duration.HumanDuration(now.Sub(e.FirstTimestamp.Time)))
}

// printEncoded prints an object as json or yaml, with one line feed at its end.
func printEncoded(out io.Writer, object any, form string) error {
	encode := func(v any) ([]byte, error) { return json.MarshalIndent(v, "", "  ") }
	if form == "yaml" {
		encode = yaml.Marshal
	}
	text, err := encode(object)
	if err != nil {
		return fmt.Errorf("cannot print the answer: %w", err)
	}
	_, err = fmt.Fprintln(out, strings.TrimRight(string(text), "\n"))
	return err
}
