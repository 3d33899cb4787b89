package compose

import (
	"fmt"
	"math"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/report"
	"github.com/podstead/podstead/cli/convert/tree"
)

// defaultGracePeriod is that of docker; Kubernetes has 30 s.
const defaultGracePeriod = 10

// restart sets the restart policy, from restart or deploy.restart_policy.
func (s *service) restart() {
	n, path := s.node.Get("restart"), "restart"
	if condition := s.node.Get("deploy").Get("restart_policy").Get("condition"); !condition.IsNull() {
		n, path = condition, "deploy.restart_policy.condition"
	}
	f := s.field(path, n)
	text, count, limited := strings.Cut(n.String(), ":")
	policy := v1.RestartPolicyNever
	switch text {
	case "always", "unless-stopped", "any":
		policy = v1.RestartPolicyAlways
	case "on-failure":
		policy = v1.RestartPolicyOnFailure
		if limited {
			s.p.report.Lost(f, "the container restarts without a limit, and not "+count+" times",
				"limit the time with activeDeadlineSeconds")
		}
	case "no", "none", "false":
	case "":
		s.p.report.Note(f, "the service has no restart, so that the pod ends for good when its container ends "+
			"(restartPolicy: Never)", "write restart: always to run it again, also after a boot")
	default:
		s.p.report.Error(f, fmt.Sprintf("is %q", text), `must be "no", always, on-failure or unless-stopped`)
	}
	if !s.shared {
		s.b.Pod.Spec.RestartPolicy = policy
	} else if pod := s.leader(); pod.b.Pod.Spec.RestartPolicy != policy {
		p := v1.ContainerRestartPolicy(policy)
		s.c.RestartPolicy = &p
	}
}

// leader returns the service that the pod is named after.
func (s *service) leader() *service {
	for _, name := range s.p.order {
		if other := s.p.services[name]; other.b == s.b && !other.shared {
			return other
		}
	}
	return s
}

// isDone reports whether the service may run to its end.
func (s *service) isDone() bool {
	text, _, _ := strings.Cut(s.node.Get("restart").String(), ":")
	return text == "" || text == "no" || text == "false" || text == "on-failure"
}

// healthcheck sets the readiness probe. Docker restarts nothing that is unhealthy, so that it is
// not a liveness probe.
func (s *service) healthcheck() {
	check := s.node.Get("healthcheck")
	if check.IsNull() {
		return
	}
	f := s.field("healthcheck", check)
	for _, field := range check.Fields {
		at := f.Child(field.Key, field.Position)
		switch field.Key {
		case "test", "interval", "timeout", "retries", "disable":
		case "start_period":
			s.p.report.Note(at, "is not needed: a pod is not ready before its first success, and a failure restarts nothing", "")
		case "start_interval":
			s.p.report.Note(at, "is left out: the probe has one period", "set a shorter interval")
		default:
			s.p.report.Error(at, "is not a field of a healthcheck", "")
		}
	}
	if disable := check.Get("disable"); !disable.IsNull() && s.bool(disable, f.Child("disable", disable.Position)) {
		return
	}
	test := check.Get("test")
	command := s.testCommand(test, f)
	if command == nil {
		return
	}
	retries := int64(3)
	if n := check.Get("retries"); !n.IsNull() {
		retries = s.int(n, f.Child("retries", n.Position))
	}
	s.c.ReadinessProbe = s.b.Probe(f, podbuild.Health{
		Command:  command,
		Interval: s.duration(check.Get("interval"), f.Child("interval", f.At), 30*time.Second),
		Timeout:  s.duration(check.Get("timeout"), f.Child("timeout", f.At), 30*time.Second),
		Retries:  int32(min(retries, math.MaxInt32)),
	})
}

// testCommand returns the command of a health check; nil without one.
func (s *service) testCommand(test *tree.Node, f report.Field) []string {
	if test.IsNull() {
		s.p.report.Lost(f, "the HEALTHCHECK of the image is not known here", "write its command as test")
		return nil
	}
	at := f.Child("test", test.Position)
	if test.Kind == tree.Scalar {
		return []string{"/bin/sh", "-c", test.Text}
	}
	words := s.words(test, at)
	switch {
	case len(words) == 1 && words[0] == "NONE":
	case len(words) > 1 && words[0] == "CMD":
		return words[1:]
	case len(words) == 2 && words[0] == "CMD-SHELL":
		return []string{"/bin/sh", "-c", words[1]}
	default:
		s.p.report.Error(at, "is not a command", "must be a text, or a list that begins with CMD, CMD-SHELL or NONE")
	}
	return nil
}

func (s *service) stopGracePeriod(n *tree.Node, f report.Field) {
	d := s.duration(n, f, 0)
	if old := s.b.Pod.Spec.TerminationGracePeriodSeconds; old == nil || time.Duration(*old)*time.Second < d {
		s.b.SetGracePeriod(f, d)
	}
}

// stopDefaults sets the grace period of docker if there is none.
func (s *service) stopDefaults() {
	if s.b.Pod.Spec.TerminationGracePeriodSeconds == nil {
		seconds := int64(defaultGracePeriod)
		s.b.Pod.Spec.TerminationGracePeriodSeconds = &seconds
	}
}

func (s *service) stopSignal(n *tree.Node, f report.Field) {
	if signal := strings.TrimPrefix(strings.ToUpper(n.String()), "SIG"); signal != "TERM" && signal != "15" {
		s.p.report.Lost(f, "the container gets the signal of its image, or SIGTERM",
			"set lifecycle.stopSignal and os.name: linux with containerd 2.3 or CRI-O 1.33")
	}
}

func (s *service) postStart(n *tree.Node, f report.Field) {
	if hook := s.hook(n, f); hook != nil {
		s.lifecycle().PostStart = hook
	}
}

func (s *service) preStop(n *tree.Node, f report.Field) {
	if hook := s.hook(n, f); hook != nil {
		s.lifecycle().PreStop = hook
	}
}

func (s *service) lifecycle() *v1.Lifecycle {
	if s.c.Lifecycle == nil {
		s.c.Lifecycle = &v1.Lifecycle{}
	}
	return s.c.Lifecycle
}

// hook returns the first hook of a list.
func (s *service) hook(n *tree.Node, f report.Field) *v1.LifecycleHandler {
	list := listOf(n)
	if len(list) == 0 {
		return nil
	}
	if len(list) > 1 {
		s.p.report.Lost(f.Index(1, list[1].Position), "a container has one hook: the others are left out",
			"join their commands")
	}
	for _, field := range fieldsOf(list[0]) {
		if field.Key != "command" {
			s.p.report.Lost(f.Index(0, field.Position).Child(field.Key, field.Position), "a hook runs as the container does", "")
		}
	}
	command := list[0].Get("command")
	if command.IsNull() {
		s.p.report.Error(f, "the hook has no command", "")
		return nil
	}
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: s.words(command, f)}}
}

// dependsOn orders the start of pods. podstead waits until a pod is ready, or has succeeded.
func (s *service) dependsOn(n *tree.Node, f report.Field) {
	for _, field := range s.pairs(n, f, "") {
		at := f.Child(field.Key, field.Position)
		other := s.p.services[field.Key]
		if other == nil {
			required := field.Value.Get("required").String()
			switch declared := s.p.root.Get("services").Get(field.Key); {
			case declared == nil && required != "false":
				s.p.report.Error(at, fmt.Sprintf("there is no service %q", field.Key), "")
			default:
				s.p.report.Note(at, "the service is left out, and not waited for", "")
			}
			continue
		}
		s.dependencies = append(s.dependencies, field.Key)
		if restart := field.Value.Get("restart"); restart.String() == "true" {
			s.p.report.Lost(at.Child("restart", restart.Position), "a restart of "+field.Key+" restarts no other pod", "")
		}
		if other.b == s.b {
			s.p.report.Note(at, "both are containers of one pod, and start together", "")
			continue
		}
		s.b.DependsOn(other.b.Pod.Name)
		s.condition(other, field.Value.Get("condition"), at)
	}
}

// condition makes the other pod ready when the condition holds.
func (s *service) condition(other *service, condition *tree.Node, f report.Field) {
	switch condition.String() {
	case "", "service_started":
	case "service_healthy":
		if other.c.ReadinessProbe == nil && other.node.Get("healthcheck").IsNull() {
			s.p.report.Lost(f, fmt.Sprintf("the service %s has no healthcheck: its pod is ready as soon as it runs", other.name),
				"write one in the Compose file")
		}
	case "service_completed_successfully":
		if !other.isDone() {
			s.p.report.Error(f, fmt.Sprintf("the service %s never completes: it restarts always", other.name),
				`write restart: "no" or on-failure there`)
			return
		}
		// A pod that is never ready lets others wait until it has succeeded.
		other.c.ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"false"}}},
			PeriodSeconds: 3600}
	default:
		s.p.report.Error(f, fmt.Sprintf("the condition is %q", condition.String()),
			"must be service_started, service_healthy or service_completed_successfully")
	}
}
