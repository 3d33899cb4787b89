package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/internal/retry"
)

// CheckHint reports what to do about a node that is not ready.
const CheckHint = "podstead check examines this host and prints what to do"

// LoadNode returns the daemon's node.
func LoadNode(ctx context.Context, c *client.Client) (*v1.Node, error) {
	l, err := Query{Kind: MustKind("nodes")}.List(ctx, c)
	if err != nil {
		return nil, err
	}
	if len(l.Objects) != 1 {
		return nil, errors.New("the daemon reported no node")
	}
	n := &v1.Node{}
	return n, l.Objects[0].Decode(n)
}

// NodeName returns the name of the daemon's node, which pod names end with.
func NodeName(ctx context.Context, c *client.Client) (string, error) {
	n, err := LoadNode(ctx, c)
	if err != nil {
		return "", err
	}
	return n.Name, nil
}

// NodeCondition returns a condition of the node, zero if it has none.
func NodeCondition(n *v1.Node, t v1.NodeConditionType) v1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	return v1.NodeCondition{}
}

// NodeReady reports whether the node is ready.
func NodeReady(n *v1.Node) bool { return NodeCondition(n, v1.NodeReady).Status == v1.ConditionTrue }

// storageConditions are true while the daemon cannot write to --root-dir, or cannot read which CSI volumes are in use.
var storageConditions = []v1.NodeConditionType{"podstead.io/RootDirNotWritable", "podstead.io/CSIVolumesUnreadable"}

// StorageFault returns why the daemon cannot store or read its state, empty if it can.
func StorageFault(n *v1.Node) string {
	var faults []string
	for _, t := range storageConditions {
		if c := NodeCondition(n, t); c.Status == v1.ConditionTrue {
			faults = append(faults, terminal.OneLine(c.Message))
		}
	}
	return strings.Join(faults, "; ")
}

// Pressure returns the pressure conditions of the node that are true.
func Pressure(n *v1.Node) (list []v1.NodeCondition) {
	for _, c := range n.Status.Conditions {
		if c.Type != v1.NodeReady && !slices.Contains(storageConditions, c.Type) && c.Status == v1.ConditionTrue {
			list = append(list, c)
		}
	}
	return list
}

// Since reports for how long a condition has its status, empty if that is unknown or now is zero.
func Since(c v1.NodeCondition, now time.Time) string {
	if c.LastTransitionTime.IsZero() || now.IsZero() {
		return ""
	}
	return " for " + duration.HumanDuration(now.Sub(c.LastTransitionTime.Time))
}

// PrintNode prints in what respect the node is not well: what its pods show may be out of date then, and
// others do not start.
func PrintNode(ctx context.Context, c *client.Client, out io.Writer, now time.Time) error {
	n, err := LoadNode(ctx, c)
	if err != nil {
		return err
	}
	for _, line := range nodeFaults(n, now) {
		fmt.Fprintln(out, line)
	}
	return nil
}

// nodeFaults returns a line for each respect in which a node is not well. They have no durations if now is zero.
func nodeFaults(n *v1.Node, now time.Time) (lines []string) {
	add := func(text string) { lines = append(lines, "node: "+terminal.Visible(n.Name+text)) }
	if ready := NodeCondition(n, v1.NodeReady); ready.Status != v1.ConditionTrue {
		add(" is not ready" + Since(ready, now) + ": " + terminal.OneLine(ready.Message) + "; " + CheckHint)
	}
	for _, p := range Pressure(n) {
		add(" has " + string(p.Type) + Since(p, now) + ": " + terminal.OneLine(p.Message))
	}
	if fault := StorageFault(n); fault != "" {
		add(" cannot store or read its state: " + fault)
	}
	return lines
}

// nodePeriod is how often a NodeWatch loads the node. The daemon does not report a change of it by itself.
const nodePeriod = 2 * time.Second

// NodeWatch reports when what PrintNode prints changes.
type NodeWatch struct {
	Client *client.Client
	// Notify gets each line, also that the node is well again.
	Notify func(text string)
	faults []string
}

// Run checks the node until ctx ends.
func (w *NodeWatch) Run(ctx context.Context) {
	for retry.Sleep(ctx, nodePeriod) {
		w.Check(ctx)
	}
}

// Check loads the node and reports a change since the last call, at the first one what is not well. A daemon that does
// not respond changes nothing.
func (w *NodeWatch) Check(ctx context.Context) {
	n, err := LoadNode(ctx, w.Client)
	if err != nil {
		return
	}
	faults := nodeFaults(n, time.Time{})
	if slices.Equal(faults, w.faults) {
		return
	}
	for _, line := range faults {
		if !slices.Contains(w.faults, line) {
			w.Notify(line)
		}
	}
	if len(faults) == 0 {
		w.Notify("node: " + n.Name + " is ready, and under no pressure")
	}
	w.faults = faults
}
