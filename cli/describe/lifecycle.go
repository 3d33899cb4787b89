package describe

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// lifecycle adds the restart rules and hooks of a container, which kubectl omits.
func lifecycle(c *v1.Container, field func(key, value string)) {
	if c.RestartPolicy != nil {
		field("Restart Policy", string(*c.RestartPolicy))
	}
	var rules []string
	for _, r := range c.RestartPolicyRules {
		text := string(r.Action)
		if r.ExitCodes != nil {
			text += fmt.Sprintf(" if exit code %s %v", r.ExitCodes.Operator, r.ExitCodes.Values)
		}
		rules = append(rules, text)
	}
	if len(rules) > 0 {
		field("Restart Rules", strings.Join(rules, "\n"))
	}
	if c.Lifecycle == nil {
		return
	}
	if h := c.Lifecycle.PostStart; h != nil {
		field("Post Start", hook(h))
	}
	if h := c.Lifecycle.PreStop; h != nil {
		field("Pre Stop", hook(h))
	}
	if c.Lifecycle.StopSignal != nil {
		field("Stop Signal", string(*c.Lifecycle.StopSignal))
	}
}

func hook(h *v1.LifecycleHandler) string {
	if h.Sleep != nil {
		return fmt.Sprintf("sleep %ds", h.Sleep.Seconds)
	}
	return action(&v1.ProbeHandler{Exec: h.Exec, HTTPGet: h.HTTPGet, TCPSocket: h.TCPSocket})
}

// action returns the action of a probe or a hook.
func action(h *v1.ProbeHandler) string {
	switch {
	case h.Exec != nil:
		return fmt.Sprintf("exec %v", h.Exec.Command)
	case h.HTTPGet != nil:
		g := h.HTTPGet
		return fmt.Sprintf("http-get %s://%s:%s%s", strings.ToLower(string(g.Scheme)), g.Host, g.Port.String(), g.Path)
	case h.TCPSocket != nil:
		return fmt.Sprintf("tcp-socket %s:%s", h.TCPSocket.Host, h.TCPSocket.Port.String())
	case h.GRPC != nil:
		return fmt.Sprintf("grpc :%d", h.GRPC.Port)
	}
	return "unknown"
}

// notStarted returns why a running container does not count as started, empty if it does.
func notStarted(c *v1.Container, st *v1.ContainerStatus) string {
	if st.State.Running == nil || st.Started == nil || *st.Started {
		return ""
	}
	var causes []string
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
		causes = append(causes, "postStart hook to return")
	}
	if c.StartupProbe != nil {
		causes = append(causes, "startup probe to succeed")
	}
	return strings.Join(causes, ", then for ")
}
