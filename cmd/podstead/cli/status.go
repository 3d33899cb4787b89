package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podstead/podstead/internal/podtable"
	"github.com/podstead/podstead/manifest"
)

func statusCommand() *cobra.Command {
	var socket, output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show on one screen how the node, its sources and its pods are",
		Long: `Show on one screen how the node is: whether the runtime answers, what is under
pressure, what each source of manifests delivered and what is wrong with it, and
of each pod that is not ready the reason.

The exit code is 0 if all is well or is on its way, 1 if the node is not ready,
a manifest is at fault or a pod fails, 3 if no daemon answers.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := askStatus(cmd.Context(), newClient(socket))
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch output {
			case "":
				_, err = io.WriteString(out, s.text(screenOf(out)))
			case "json", "yaml":
				err = printEncoded(out, s.summary(), output)
			default:
				return usageError(fmt.Errorf("--output %q: must be json or yaml", output))
			}
			if err == nil && !s.well() {
				return &ExitError{Code: ExitFailed}
			}
			return err
		},
	}
	socketFlag(cmd.Flags(), &socket)
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
	return cmd
}

// boxStatus is what status shows.
type boxStatus struct {
	node    v1.Node
	pods    []v1.Pod
	sources []manifestSource
	now     time.Time
}

func askStatus(ctx context.Context, c *client) (*boxStatus, error) {
	s := &boxStatus{now: time.Now()}
	nodes, err := query{kind: mustKind("nodes")}.list(ctx, c)
	if err != nil {
		return nil, err
	}
	if len(nodes.objects) != 1 {
		return nil, errors.New("podstead tells of no node")
	}
	if err := nodes.objects[0].into(&s.node); err != nil {
		return nil, fmt.Errorf("cannot read the node that podstead sent: %w", err)
	}
	pods, err := query{kind: podKind()}.list(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, o := range pods.objects {
		p, err := podOf(o)
		if err != nil {
			return nil, err
		}
		s.pods = append(s.pods, *p)
	}
	return s, c.get(ctx, "/podstead/v1/manifests", &s.sources)
}

// condition of the node; the zero condition if it does not tell.
func (s *boxStatus) condition(t v1.NodeConditionType) v1.NodeCondition {
	for _, c := range s.node.Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	return v1.NodeCondition{}
}

// pressure are the conditions but Ready that hold.
func (s *boxStatus) pressure() (names []string) {
	for _, c := range s.node.Status.Conditions {
		if c.Type != v1.NodeReady && c.Status == v1.ConditionTrue {
			names = append(names, string(c.Type))
		}
	}
	return names
}

// podState is how a pod is: ready, done, starting, ending, or failing.
func podState(p *v1.Pod) string {
	switch {
	case p.DeletionTimestamp != nil:
		return "ending"
	case p.Status.Phase == v1.PodSucceeded:
		return "done"
	case p.Status.Phase == v1.PodFailed:
		return "failing"
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
			return "ready"
		}
	}
	switch state := podtable.State(p); hueOf(state) {
	case hueBusy, hueGood:
		return "starting"
	}
	return "failing"
}

var podStates = []string{"ready", "done", "starting", "ending", "failing"}

func (s *boxStatus) counts() map[string]int {
	counts := map[string]int{}
	for i := range s.pods {
		counts[podState(&s.pods[i])]++
	}
	return counts
}

func (s *boxStatus) well() bool {
	if s.condition(v1.NodeReady).Status != v1.ConditionTrue || s.counts()["failing"] > 0 {
		return false
	}
	return !slices.ContainsFunc(s.sources, func(src manifestSource) bool {
		return src.Fault != "" || slices.ContainsFunc(src.Units, func(u manifestUnit) bool { return len(u.Faults) > 0 })
	})
}

// statusWidth is the column of the values.
const statusWidth = 11

func (s *boxStatus) text(screen screen) string {
	var b strings.Builder
	line := func(key, value string, h hue) {
		width := len(value)
		if screen.width > 0 {
			width = max(prose, screen.width-statusWidth)
		}
		for i, part := range wrap(visible(value), max(width, 1)) {
			if i > 0 {
				key = ""
			}
			b.WriteString(key + strings.Repeat(" ", statusWidth-len(key)) + screen.paint(part, h) + "\n")
		}
	}
	ready := s.condition(v1.NodeReady)
	info := s.node.Status.NodeInfo
	word, h := "ready", hueGood
	if ready.Status != v1.ConditionTrue {
		word, h = "not ready: "+oneLine(ready.Message), hueBad
	}
	line("Node:", s.node.Name+", "+word+since(ready, s.now), h)
	line("Runtime:", orNone(info.ContainerRuntimeVersion), "")
	line("Version:", strings.TrimSpace(info.KubeletVersion+", kernel "+info.KernelVersion), "")
	if names := s.pressure(); len(names) == 0 {
		line("Pressure:", "none", hueGood)
	} else {
		for _, name := range names {
			c := s.condition(v1.NodeConditionType(name))
			line("Pressure:", name+since(c, s.now)+": "+oneLine(c.Message), hueBad)
		}
	}
	for _, src := range s.sources {
		s.source(line, &src)
	}
	counts := s.counts()
	var parts []string
	for _, state := range podStates {
		if counts[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
		}
	}
	h = hueGood
	if counts["failing"] > 0 {
		h = hueBad
	} else if counts["starting"] > 0 {
		h = hueBusy
	}
	if len(s.pods) == 0 {
		line("Pods:", "none", "")
		return b.String()
	}
	line("Pods:", strings.Join(parts, ", "), h)
	if t := s.unready(); len(t.rows) > 0 {
		b.WriteString("\n" + t.text(screen))
	}
	return b.String()
}

func since(c v1.NodeCondition, now time.Time) string {
	if c.LastTransitionTime.IsZero() {
		return ""
	}
	return " for " + duration.HumanDuration(now.Sub(c.LastTransitionTime.Time))
}

// source tells of one source: where it is, when it was read and what it holds,
// then each fault.
func (s *boxStatus) source(line func(key, value string, h hue), src *manifestSource) {
	files, pods := 0, 0
	for _, u := range src.Units {
		files, pods = files+1, pods+len(u.Pods)
	}
	text := fmt.Sprintf("%s %s: %s in %s", src.Source, src.Location, count(pods, "pod"), count(files, "manifest"))
	h := hueGood
	cluster := src.Source == string(manifest.SourceAPI)
	if cluster {
		text = fmt.Sprintf("%s %s: %s", src.Source, src.Location, count(pods, "pod"))
	}
	switch {
	case !src.Delivered && cluster:
		text, h = text+", not heard of since podstead started; its pods that run are left as they are", hueBusy
	case cluster:
	case !src.Delivered:
		text, h = text+", not read since podstead started; the last good manifests are in effect", hueBusy
	case !src.Time.IsZero():
		text += ", read " + duration.HumanDuration(s.now.Sub(src.Time)) + " ago"
	}
	line("Source:", text, h)
	for _, fault := range src.faults() {
		line("  fault:", fault, hueBad)
	}
	for _, warning := range src.warnings() {
		line("  warning:", warning, hueBusy)
	}
}

// unready are the pods that are not as they should be, with the reason.
func (s *boxStatus) unready() table {
	t := table{head: []string{"NAMESPACE", "NAME", "READY", "STATUS", "AGE", "MESSAGE"}}
	for i := range s.pods {
		p := &s.pods[i]
		if state := podState(p); state == "ready" || state == "done" {
			continue
		}
		ready, _, _ := podtable.Tally(p)
		message := podtable.Message(p)
		if message == "" {
			message = unreadyMessage(p)
		}
		t.rows = append(t.rows, []string{
			p.Namespace, manifest.BaseName(p), fmt.Sprintf("%d/%d", ready, podtable.Containers(p)),
			podtable.State(p), podtable.Age(p, s.now), orNone(oneLine(message)),
		})
	}
	return t
}

// unreadyMessage is why a pod is not ready that says nothing of it itself.
func unreadyMessage(p *v1.Pod) string {
	for _, s := range p.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && w.Reason == "ContainerCreating" {
			return fmt.Sprintf("container %s is made of image %s", s.Name, s.Image)
		}
	}
	for _, t := range []v1.PodConditionType{v1.PodInitialized, v1.PodReadyToStartContainers, v1.ContainersReady, v1.PodReady} {
		for _, c := range p.Status.Conditions {
			if c.Type == t && c.Status != v1.ConditionTrue && c.Message != "" {
				return c.Message
			}
		}
	}
	return ""
}

// summary is the status for scripts. Its fields stay.
func (s *boxStatus) summary() map[string]any {
	faults, warnings := []string{}, []string{}
	for i := range s.sources {
		faults = append(faults, s.sources[i].faults()...)
		warnings = append(warnings, s.sources[i].warnings()...)
	}
	unready := []map[string]string{}
	for _, row := range s.unready().rows {
		unready = append(unready, map[string]string{"namespace": row[0], "name": row[1], "state": row[3], "message": strings.TrimPrefix(row[5], "<none>")})
	}
	counts := map[string]int{}
	for _, state := range podStates {
		counts[state] = s.counts()[state]
	}
	pressure := s.pressure()
	if pressure == nil {
		pressure = []string{}
	}
	return map[string]any{
		"node": s.node.Name, "ready": s.condition(v1.NodeReady).Status == v1.ConditionTrue, "well": s.well(),
		"pressure": pressure, "faults": faults, "warnings": warnings, "pods": counts, "unready": unready,
	}
}
