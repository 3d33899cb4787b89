package describe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
)

// containerWidth is the column of a container's values, counted from its indentation.
const containerWidth = 17

func (d PodDescription) containers(s *terminal.Report, title string, containers []v1.Container, statuses []v1.ContainerStatus) {
	if len(containers) == 0 {
		return
	}
	s.Heading(0, title)
	for i := range containers {
		c := &containers[i]
		s.Heading(2, c.Name)
		st := v1.ContainerStatus{}
		if n := slices.IndexFunc(statuses, func(st v1.ContainerStatus) bool { return st.Name == c.Name }); n >= 0 {
			st = statuses[n]
		}
		d.container(s, c, st)
	}
}

func (d PodDescription) container(s *terminal.Report, c *v1.Container, st v1.ContainerStatus) {
	field := func(key, value string) { s.Field(4, containerWidth, key, value) }
	field("Container ID", terminal.OrNone(st.ContainerID))
	field("Image", c.Image)
	field("Image ID", terminal.OrNone(st.ImageID))
	if len(c.Ports) > 0 {
		field("Ports", ports(c.Ports))
	}
	words(s, "Command", c.Command)
	words(s, "Args", c.Args)
	lifecycle(c, field)
	d.state(s, "State", st.State)
	if what := startWaitsFor(c, &st); what != "" {
		field("Waits For", what)
	}
	if st.LastTerminationState != (v1.ContainerState{}) {
		d.state(s, "Last State", st.LastTerminationState)
	}
	field("Ready", terminal.Title(strconv.FormatBool(st.Ready)))
	field("Restart Count", strconv.Itoa(int(st.RestartCount)))
	quantities(s, "Limits", c.Resources.Limits)
	quantities(s, "Requests", c.Resources.Requests)
	for _, p := range []struct {
		key   string
		probe *v1.Probe
	}{{"Liveness", c.LivenessProbe}, {"Readiness", c.ReadinessProbe}, {"Startup", c.StartupProbe}} {
		if p.probe != nil {
			field(p.key, probe(p.probe))
		}
	}
	environment(s, c)
	if len(c.VolumeMounts) == 0 {
		field("Mounts", "<none>")
		return
	}
	s.Heading(4, "Mounts")
	for _, m := range c.VolumeMounts {
		s.Line(6, mount(m))
	}
}

// state prints a container's state; what kubectl leaves out of one that waits,
// the message, is what people look for.
func (d PodDescription) state(s *terminal.Report, key string, st v1.ContainerState) {
	field := func(key, value string) { s.Field(6, containerWidth-2, key, value) }
	optional := func(key, value string) {
		if value != "" {
			field(key, value)
		}
	}
	switch {
	case st.Running != nil:
		s.Field(4, containerWidth, key, "Running")
		field("Started", d.time(&st.Running.StartedAt))
	case st.Terminated != nil:
		t := st.Terminated
		s.Field(4, containerWidth, key, "Terminated")
		optional("Reason", t.Reason)
		optional("Message", t.Message)
		field("Exit Code", strconv.Itoa(int(t.ExitCode)))
		if t.Signal != 0 {
			field("Signal", strconv.Itoa(int(t.Signal)))
		}
		field("Started", d.time(&t.StartedAt))
		field("Finished", d.time(&t.FinishedAt))
	case st.Waiting != nil:
		s.Field(4, containerWidth, key, "Waiting")
		optional("Reason", st.Waiting.Reason)
		optional("Message", st.Waiting.Message)
	default:
		s.Field(4, containerWidth, key, "Waiting")
	}
}

func words(s *terminal.Report, key string, list []string) {
	if len(list) == 0 {
		return
	}
	s.Heading(4, key)
	for _, w := range list {
		for _, l := range strings.Split(strings.TrimRight(w, "\n"), "\n") {
			s.Line(6, l)
		}
	}
}

func ports(list []v1.ContainerPort) string {
	var all []string
	for _, p := range list {
		text := fmt.Sprintf("%d/%s", p.ContainerPort, p.Protocol)
		if p.Name != "" {
			text += " (" + p.Name + ")"
		}
		if p.HostPort != 0 {
			host := strconv.Itoa(int(p.HostPort))
			if p.HostIP != "" {
				host = p.HostIP + ":" + host
			}
			text += " on host port " + host
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func quantities(s *terminal.Report, key string, list v1.ResourceList) {
	if len(list) == 0 {
		return
	}
	var names []string
	for name := range list {
		names = append(names, string(name))
	}
	slices.Sort(names)
	s.Heading(4, key)
	for _, name := range names {
		q := list[v1.ResourceName(name)]
		s.Field(6, containerWidth-2, name, q.String())
	}
}

func probe(p *v1.Probe) string {
	return fmt.Sprintf("%s delay=%ds timeout=%ds period=%ds #success=%d #failure=%d", action(&p.ProbeHandler), p.InitialDelaySeconds, p.TimeoutSeconds, p.PeriodSeconds, p.SuccessThreshold, p.FailureThreshold)
}

func environment(s *terminal.Report, c *v1.Container) {
	if len(c.Env)+len(c.EnvFrom) == 0 {
		s.Field(4, containerWidth, "Environment", "<none>")
		return
	}
	s.Heading(4, "Environment")
	for _, f := range c.EnvFrom {
		switch {
		case f.ConfigMapRef != nil:
			s.Line(6, fmt.Sprintf("%s* from config map %s", f.Prefix, f.ConfigMapRef.Name))
		case f.SecretRef != nil:
			s.Line(6, fmt.Sprintf("%s* from secret %s", f.Prefix, f.SecretRef.Name))
		}
	}
	for _, e := range c.Env {
		s.Field(6, containerWidth-2, e.Name, envValue(e))
	}
}

func envValue(e v1.EnvVar) string {
	from := e.ValueFrom
	switch {
	case from == nil:
		return e.Value
	case from.FieldRef != nil:
		return fmt.Sprintf("<field %s>", from.FieldRef.FieldPath)
	case from.ResourceFieldRef != nil:
		return fmt.Sprintf("<resource %s>", from.ResourceFieldRef.Resource)
	case from.ConfigMapKeyRef != nil:
		return fmt.Sprintf("<key %s of config map %s>", from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Name)
	case from.SecretKeyRef != nil:
		return fmt.Sprintf("<key %s of secret %s>", from.SecretKeyRef.Key, from.SecretKeyRef.Name)
	}
	return "<unknown>"
}

func mount(m v1.VolumeMount) string {
	mode := "rw"
	if m.ReadOnly {
		mode = "ro"
	}
	if m.SubPath != "" {
		mode += ",path=" + strconv.Quote(m.SubPath)
	} else if m.SubPathExpr != "" {
		mode += ",path=" + strconv.Quote(m.SubPathExpr)
	}
	return fmt.Sprintf("%s from %s (%s)", m.MountPath, m.Name, mode)
}
