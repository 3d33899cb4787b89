package describe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/terminal"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// containerColumn is the column of a container's values, relative to its indentation.
const containerColumn = 17

func (d PodDescription) containers(r *terminal.Report, title string, kinds podinfo.ContainerKinds,
	statuses []v1.ContainerStatus) {
	for c := range podinfo.EachContainer(&d.Pod.Spec, kinds) {
		if title != "" {
			r.Heading(0, title)
			title = ""
		}
		r.Heading(2, c.Name)
		st := v1.ContainerStatus{}
		if n := slices.IndexFunc(statuses, func(st v1.ContainerStatus) bool { return st.Name == c.Name }); n >= 0 {
			st = statuses[n]
		}
		d.container(r, c, st)
	}
}

func (d PodDescription) container(r *terminal.Report, c *v1.Container, st v1.ContainerStatus) {
	field := func(key, value string) { r.Field(4, containerColumn, key, value) }
	field("Container ID", terminal.OrNone(st.ContainerID))
	field("Image", c.Image)
	field("Image ID", terminal.OrNone(st.ImageID))
	if len(c.Ports) > 0 {
		field("Ports", ports(c.Ports))
	}
	words(r, "Command", c.Command)
	words(r, "Args", c.Args)
	lifecycle(c, field)
	d.state(r, "State", st.State)
	if reason := notStarted(c, &st); reason != "" {
		field("Waiting For", reason)
	}
	if st.LastTerminationState != (v1.ContainerState{}) {
		d.state(r, "Last State", st.LastTerminationState)
	}
	field("Ready", terminal.Title(strconv.FormatBool(st.Ready)))
	field("Restart Count", strconv.Itoa(int(st.RestartCount)))
	quantities(r, "Limits", c.Resources.Limits)
	quantities(r, "Requests", c.Resources.Requests)
	for _, p := range []struct {
		key   string
		probe *v1.Probe
	}{{"Liveness", c.LivenessProbe}, {"Readiness", c.ReadinessProbe}, {"Startup", c.StartupProbe}} {
		if p.probe != nil {
			field(p.key, probe(p.probe))
		}
	}
	environment(r, c)
	if len(c.VolumeMounts) == 0 {
		field("Mounts", "<none>")
		return
	}
	r.Heading(4, "Mounts")
	for _, m := range c.VolumeMounts {
		r.Line(6, mount(m))
	}
}

// state adds a container's state. It includes the message of a waiting container, which
// kubectl omits although it usually names the cause.
func (d PodDescription) state(r *terminal.Report, key string, st v1.ContainerState) {
	field := func(key, value string) { r.Field(6, containerColumn-2, key, value) }
	optional := func(key, value string) {
		if value != "" {
			field(key, value)
		}
	}
	switch {
	case st.Running != nil:
		r.Field(4, containerColumn, key, "Running")
		field("Started", d.time(&st.Running.StartedAt))
	case st.Terminated != nil:
		t := st.Terminated
		r.Field(4, containerColumn, key, "Terminated")
		optional("Reason", t.Reason)
		optional("Message", t.Message)
		field("Exit Code", strconv.Itoa(int(t.ExitCode)))
		if t.Signal != 0 {
			field("Signal", strconv.Itoa(int(t.Signal)))
		}
		field("Started", d.time(&t.StartedAt))
		field("Finished", d.time(&t.FinishedAt))
	case st.Waiting != nil:
		r.Field(4, containerColumn, key, "Waiting")
		optional("Reason", st.Waiting.Reason)
		optional("Message", st.Waiting.Message)
	default:
		r.Field(4, containerColumn, key, "Waiting")
	}
}

// words adds a list of arguments, one per line.
func words(r *terminal.Report, key string, list []string) {
	if len(list) == 0 {
		return
	}
	r.Heading(4, key)
	for _, w := range list {
		for _, l := range strings.Split(strings.TrimRight(w, "\n"), "\n") {
			r.Line(6, l)
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

func quantities(r *terminal.Report, key string, list v1.ResourceList) {
	if len(list) == 0 {
		return
	}
	var names []string
	for name := range list {
		names = append(names, string(name))
	}
	slices.Sort(names)
	r.Heading(4, key)
	for _, name := range names {
		q := list[v1.ResourceName(name)]
		r.Field(6, containerColumn-2, name, q.String())
	}
}

func probe(p *v1.Probe) string {
	return fmt.Sprintf("%s delay=%ds timeout=%ds period=%ds #success=%d #failure=%d", action(&p.ProbeHandler),
		p.InitialDelaySeconds, p.TimeoutSeconds, p.PeriodSeconds, p.SuccessThreshold, p.FailureThreshold)
}

func environment(r *terminal.Report, c *v1.Container) {
	if len(c.Env)+len(c.EnvFrom) == 0 {
		r.Field(4, containerColumn, "Environment", "<none>")
		return
	}
	r.Heading(4, "Environment")
	for _, f := range c.EnvFrom {
		switch {
		case f.ConfigMapRef != nil:
			r.Line(6, fmt.Sprintf("%s* from config map %s", f.Prefix, f.ConfigMapRef.Name))
		case f.SecretRef != nil:
			r.Line(6, fmt.Sprintf("%s* from secret %s", f.Prefix, f.SecretRef.Name))
		}
	}
	for _, e := range c.Env {
		r.Field(6, containerColumn-2, e.Name, envValue(e))
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
