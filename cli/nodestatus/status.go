package nodestatus

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/internal/podtable"
	"github.com/podstead/podstead/manifest"
)

// Status is the status of the node.
type Status struct {
	Node v1.Node
	Pods []v1.Pod
	// Causes say why pods are not ready.
	Causes  objects.Causes
	Sources []api.ManifestSource
	// Archives are the image archives on the node.
	Archives api.ImageArchives
	Rollouts []api.Rollout
	Now      time.Time
}

// Load requests the status from the daemon.
func Load(ctx context.Context, c *client.Client) (*Status, error) {
	node, err := objects.LoadNode(ctx, c)
	if err != nil {
		return nil, err
	}
	s := &Status{Node: *node, Now: time.Now()}
	pods, err := objects.Query{Kind: objects.PodKind()}.List(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, o := range pods.Objects {
		p, err := objects.DecodePod(o)
		if err != nil {
			return nil, err
		}
		s.Pods = append(s.Pods, *p)
	}
	s.Causes = objects.FindCauses(ctx, c, s.Pods)
	if s.Archives, err = objects.LoadImageArchives(ctx, c); err != nil {
		return nil, err
	}
	if s.Rollouts, err = objects.ListRollouts(ctx, c); err != nil {
		return nil, err
	}
	s.Sources, err = c.Manifests(ctx)
	return s, err
}

// podState returns the state of a pod: one of podStates.
func podState(p *v1.Pod) string {
	switch {
	case p.DeletionTimestamp != nil:
		return "terminating"
	case p.Status.Phase == v1.PodSucceeded:
		return "succeeded"
	case p.Status.Phase == v1.PodFailed:
		return "failing"
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
			return "ready"
		}
	}
	switch state := podtable.State(p); terminal.StateColor(state) {
	case terminal.Yellow, terminal.Green:
		return "starting"
	}
	return "failing"
}

// podStates are the keys of the number of pods by state.
var podStates = []string{"ready", "succeeded", "starting", "terminating", "failing"}

func (s *Status) counts() map[string]int {
	counts := map[string]int{}
	for i := range s.Pods {
		counts[podState(&s.Pods[i])]++
	}
	return counts
}

// rolledBack reports whether a pod runs an earlier revision, since that of its manifest
// failed.
func (s *Status) rolledBack() bool {
	return slices.ContainsFunc(s.Rollouts, func(r api.Rollout) bool { return r.State == api.RolloutRolledBack })
}

// Healthy reports whether the node is ready, not under pressure, and can store and read its state, no pod is
// failing or was rolled back, and no manifest or image archive is invalid.
func (s *Status) Healthy() bool {
	if len(objects.Pressure(&s.Node)) > 0 || !objects.NodeReady(&s.Node) || objects.StorageFault(&s.Node) != "" ||
		s.counts()["failing"] > 0 ||
		s.rolledBack() || len(objects.ArchiveFaults(&s.Archives)) > 0 {
		return false
	}
	return !slices.ContainsFunc(s.Sources, func(src api.ManifestSource) bool {
		return src.Fault != "" || slices.ContainsFunc(src.Units, func(u api.ManifestUnit) bool { return len(u.Faults) > 0 })
	})
}

// valueColumn is the column of the values; that of a longer key is one blank after it.
const valueColumn = 11

// Text returns the status as it is printed on a terminal.
func (s *Status) Text(t terminal.Terminal) string {
	var b strings.Builder
	line := func(key, value string, color terminal.Color) {
		width := len(value)
		if t.Width > 0 {
			width = max(terminal.WrapWidth, t.Width-max(valueColumn, len(key)+1))
		}
		for i, part := range terminal.Wrap(terminal.Visible(value), max(width, 1)) {
			if i > 0 {
				key = ""
			}
			b.WriteString(key + strings.Repeat(" ", max(1, valueColumn-len(key))) + t.Paint(part, color) + "\n")
		}
	}
	ready := objects.NodeCondition(&s.Node, v1.NodeReady)
	info := s.Node.Status.NodeInfo
	word, color := "ready", terminal.Green
	if ready.Status != v1.ConditionTrue {
		word, color = "not ready: "+terminal.OneLine(ready.Message), terminal.Red
	}
	line("Node:", s.Node.Name+", "+word+objects.Since(ready, s.Now), color)
	if ready.Status != v1.ConditionTrue {
		line("", objects.CheckHint, "")
	}
	line("Runtime:", terminal.OrNone(info.ContainerRuntimeVersion), "")
	line("Version:", strings.TrimSpace(info.KubeletVersion+", kernel "+info.KernelVersion), "")
	pressure := objects.Pressure(&s.Node)
	if len(pressure) == 0 {
		line("Pressure:", "none", terminal.Green)
	}
	for _, c := range pressure {
		line("Pressure:", string(c.Type)+objects.Since(c, s.Now)+": "+terminal.OneLine(c.Message), terminal.Red)
	}
	if fault := objects.StorageFault(&s.Node); fault != "" {
		line("Storage:", fault, terminal.Red)
	}
	for _, src := range s.Sources {
		s.source(line, &src)
	}
	s.archives(line)
	for i := range s.Rollouts {
		if notice := objects.RolloutNotice(&s.Rollouts[i], s.Now); notice != "" {
			color := terminal.Yellow
			if s.Rollouts[i].State == api.RolloutRolledBack {
				color = terminal.Red
			}
			line("Rollout:", notice, color)
		}
	}
	for _, text := range s.resizes() {
		line("Resize:", text, terminal.Yellow)
	}
	for _, text := range s.outdated() {
		line("Outdated:", text, terminal.Yellow)
	}
	listeners := objects.HostListeners(s.Pods)
	for i := range s.Pods {
		if text := listeners.Find(&s.Pods[i]); text != "" {
			line("Host port:", s.Pods[i].Namespace+"/"+manifest.BaseName(&s.Pods[i])+": "+text, terminal.Yellow)
		}
	}
	counts := s.counts()
	var parts []string
	for _, state := range podStates {
		if counts[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
		}
	}
	color = terminal.Green
	if counts["failing"] > 0 {
		color = terminal.Red
	} else if counts["starting"] > 0 {
		color = terminal.Yellow
	}
	if len(s.Pods) == 0 {
		line("Pods:", "none", "")
		return b.String()
	}
	line("Pods:", strings.Join(parts, ", "), color)
	if pods := s.unready(); len(pods.Rows) > 0 {
		b.WriteString("\n" + pods.Text(t))
	}
	return b.String()
}

// outdated returns, by pod, which containers run with a previous ConfigMap or Secret.
func (s *Status) outdated() []string { return s.each(podtable.Outdated) }

// resizes returns, by pod, why it does not have the resources of its manifest.
func (s *Status) resizes() []string { return s.each(podtable.Resize) }

// each returns, by pod, what is reported about it, without the pods about which there is nothing.
func (s *Status) each(report func(*v1.Pod) string) []string {
	all := []string{}
	for i := range s.Pods {
		if text := report(&s.Pods[i]); text != "" {
			all = append(all, s.Pods[i].Namespace+"/"+manifest.BaseName(&s.Pods[i])+": "+terminal.OneLine(text))
		}
	}
	return all
}

// ignored returns the paths that are not read.
func (s *Status) ignored() []string {
	all := []string{}
	for i := range s.Sources {
		for _, name := range s.Sources[i].Ignored {
			all = append(all, strings.TrimSuffix(s.Sources[i].Location, "/")+"/"+name)
		}
	}
	return all
}

// source adds a source: its location, when it was read, its number of pods, and its faults.
func (s *Status) source(line func(key, value string, color terminal.Color), src *api.ManifestSource) {
	files, pods := 0, 0
	for _, u := range src.Units {
		files, pods = files+1, pods+len(u.Pods)
	}
	unit := "manifest"
	if src.Source == string(manifest.SourceOCI) {
		unit = "artifact"
	}
	text := fmt.Sprintf("%s %s: %s in %s", src.Source, src.Location, terminal.Count(pods, "pod"),
		terminal.Count(files, unit))
	color := terminal.Green
	cluster := src.Source == string(manifest.SourceAPI)
	if cluster {
		text = fmt.Sprintf("%s %s: %s", src.Source, src.Location, terminal.Count(pods, "pod"))
	}
	switch {
	case !src.Delivered && cluster:
		text, color = text+", not synced since podstead started; its running pods are left unchanged", terminal.Yellow
	case cluster:
	case !src.Delivered && len(src.Incomplete) > 0:
		text, color = text+", "+incomplete(src), terminal.Yellow
	case !src.Delivered:
		text, color = text+", not read since podstead started; using the last good manifests", terminal.Yellow
	case !src.Time.IsZero():
		text += ", read " + duration.HumanDuration(s.Now.Sub(src.Time)) + " ago"
	}
	line("Source:", text, color)
	for _, u := range src.Units {
		if u.Revision != "" {
			line("  revision:", u.Name+"@"+u.Revision, "")
		}
	}
	if len(src.Ignored) > 0 {
		line("  ignored:", manifest.DescribeIgnored(src.Ignored), terminal.Yellow)
	}
	for _, fault := range src.Faults() {
		line("  fault:", fault, terminal.Red)
	}
	for _, warning := range src.Warnings() {
		line("  warning:", warning, terminal.Yellow)
	}
}

// archives adds the image archives, if there are any, and their faults.
func (s *Status) archives(line func(key, value string, color terminal.Color)) {
	a := &s.Archives
	faults, warnings := objects.ArchiveFaults(a), objects.ArchiveWarnings(a)
	text := objects.ArchiveSummary(a)
	if text == "" && len(faults)+len(warnings) == 0 {
		return
	}
	color := terminal.Green
	if len(faults) > 0 {
		color = terminal.Red
	}
	line("Archives:", strings.TrimSuffix(a.Directory+": "+text, ": "), color)
	for _, fault := range faults {
		line("  fault:", fault, terminal.Red)
	}
	for _, warning := range warnings {
		line("  warning:", warning, terminal.Yellow)
	}
}

// incomplete names the manifests because of which a source is not complete.
func incomplete(src *api.ManifestSource) string {
	names := make([]string, 0, len(src.Incomplete))
	for _, name := range src.Incomplete {
		names = append(names, strings.TrimPrefix(name, strings.TrimSuffix(src.Location, "/")+"/"))
	}
	switch what, more := names[0], len(names)-1; more {
	case 0:
		return "incomplete because " + what + " is invalid; cleanup is suspended until it is valid"
	case 1:
		return "incomplete because " + what + " and " + names[1] + " are invalid; cleanup is suspended until they are valid"
	default:
		return fmt.Sprintf("incomplete because %s and %d more are invalid; cleanup is suspended until they are valid", what,
			more)
	}
}

// unready returns the table of the pods that are neither ready nor succeeded.
func (s *Status) unready() terminal.Table {
	t := terminal.Table{Header: []string{"NAMESPACE", "NAME", "READY", "STATUS", "AGE", "MESSAGE"}}
	for i := range s.Pods {
		p := &s.Pods[i]
		if state := podState(p); state == "ready" || state == "succeeded" {
			continue
		}
		ready, _, _ := podtable.Tally(p)
		message := cmp.Or(s.Causes.Find(p), podtable.Message(p))
		if message == "" {
			message = unreadyMessage(p)
		}
		t.Rows = append(t.Rows, []string{
			p.Namespace, manifest.BaseName(p), fmt.Sprintf("%d/%d", ready, podtable.Containers(p)),
			podtable.State(p), podtable.Age(p, s.Now), terminal.OrNone(terminal.OneLine(message)),
		})
	}
	return t
}

// unreadyMessage returns why a pod without a message of its own is not ready.
func unreadyMessage(p *v1.Pod) string {
	for _, s := range p.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && w.Reason == "ContainerCreating" {
			return fmt.Sprintf("creating container %s from image %s", s.Name, s.Image)
		}
	}
	return objects.Unready(p)
}

// Summary returns the status for scripts. Its fields are stable.
func (s *Status) Summary() map[string]any {
	faults, warnings := []string{}, []string{}
	for i := range s.Sources {
		faults = append(faults, s.Sources[i].Faults()...)
		warnings = append(warnings, s.Sources[i].Warnings()...)
	}
	faults, warnings = append(faults, objects.ArchiveFaults(&s.Archives)...),
		append(warnings, objects.ArchiveWarnings(&s.Archives)...)
	unready := []map[string]string{}
	for _, row := range s.unready().Rows {
		unready = append(unready, map[string]string{"namespace": row[0], "name": row[1], "state": row[3],
			"message": strings.TrimPrefix(row[5], "<none>")})
	}
	counts := map[string]int{}
	for _, state := range podStates {
		counts[state] = s.counts()[state]
	}
	rollouts := []string{}
	for i := range s.Rollouts {
		if notice := objects.RolloutNotice(&s.Rollouts[i], s.Now); notice != "" {
			rollouts = append(rollouts, notice)
		}
	}
	pressure := []v1.NodeConditionType{}
	for _, c := range objects.Pressure(&s.Node) {
		pressure = append(pressure, c.Type)
	}
	return map[string]any{
		"node": s.Node.Name, "ready": objects.NodeReady(&s.Node), "healthy": s.Healthy(),
		"pressure": pressure, "storageFault": objects.StorageFault(&s.Node), "faults": faults, "warnings": warnings,
		"pods":    counts,
		"unready": unready, "rollouts": rollouts, "outdated": s.outdated(), "resizes": s.resizes(), "ignored": s.ignored(),
	}
}
