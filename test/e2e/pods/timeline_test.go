package pods

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// timeline is a pod whose containers and hooks each write a line to one file of the host when
// they begin and end, and the expected order of the lines.
type timeline struct {
	name   string
	policy v1.RestartPolicy
	grace  int64
	// list has the containers: init containers and sidecars first.
	list []member
	// want is evaluated by (*record).checkStatement.
	want []string
	// ended has the statements that must be true after the manifest was removed and the pod is
	// gone. A case without it keeps its pod.
	ended []string
}

// kind is the kind of a container.
type kind int

const (
	regular kind = iota
	initial
	sidecar
)

// member is one container of a timeline.
type member struct {
	kind kind
	name string
	// does is the script that runs after "start" was written; see the scripts below.
	does string
	// policy is the container's own restart policy.
	policy v1.ContainerRestartPolicy
	rules  []v1.ContainerRestartRule
	// postStart and preStop are the scripts of the hooks, empty for none.
	postStart, preStop string
	// startup and liveness are the scripts of the probes.
	startup, liveness string
}

// Scripts. `log WORD` writes the line "NAME WORD".
const (
	// stays runs until SIGTERM, records it and exits with 0.
	stays = `trap 'log term; log end; exit 0' TERM; sleep 100000 & wait`
	// ends and fails exit after a moment.
	ends  = `sleep 0.3; log end; exit 0`
	fails = `sleep 0.3; log end; exit 3`
	// failsOnce fails in its first run and exits with 0 in its second.
	failsOnce = `sleep 0.3; log end; test -e /t/$ME.once && exit 0; touch /t/$ME.once; exit 3`
	// failsOnceThenStays fails in its first run and keeps running in its second.
	failsOnceThenStays = `test -e /t/$ME.once || { touch /t/$ME.once; sleep 0.3; log end; exit 3; }; ` + stays
	// takesLong exits with 0 two seconds after SIGTERM.
	takesLong = `trap 'log term; sleep 2; log end; exit 0' TERM; sleep 100000 & wait`
	// hook is a hook that takes a moment; badHook fails, and badHookOnce fails the first time, once
	// the container handles SIGTERM.
	hook        = `log NAME-begin; sleep 0.7; log NAME-end`
	badHook     = handlesTerm + `log NAME-begin; exit 1`
	badHookOnce = handlesTerm + `test -e /t/hooked || { touch /t/hooked; exit 1; }`
	handlesTerm = `until grep -q "^$ME start" /t/log; do sleep 0.1; done; `
	// badTerm fails on SIGTERM.
	badTerm = `trap 'log term; log end; exit 5' TERM; sleep 100000 & wait`
	// diesOnce is a liveness probe that fails in the first instance.
	diesOnce = `test -e /t/$ME.died || { touch /t/$ME.died; exit 1; }`
	// startsLate is a startup probe that succeeds a moment after the start.
	startsLate = `test -e /t/$ME.up || { test -e /t/$ME.soon && { touch /t/$ME.up; log up; }; touch /t/$ME.soon; exit 1; }`
)

// shell returns a command that runs a script which may use log.
func shell(script string) []string {
	return []string{"sh", "-c", `log() { echo "$ME $1" >> /t/log; }; ` + script}
}

// pod returns the manifest of the case; its containers write to the directory dir.
func (c *timeline) pod(dir string) (string, error) {
	grace := c.grace
	if grace == 0 {
		grace = 120 // an exec of a hook begins late on a busy machine
	}
	spec := v1.PodSpec{
		RestartPolicy:                 c.policy,
		TerminationGracePeriodSeconds: &grace,
		Volumes: []v1.Volume{
			{Name: "t", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}}},
	}
	for _, m := range c.list {
		if m.kind == regular {
			spec.Containers = append(spec.Containers, m.container())
		} else {
			spec.InitContainers = append(spec.InitContainers, m.container())
		}
	}
	text, err := yaml.Marshal(&v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: c.name},
		Spec:       spec,
	})
	return string(text), err
}

func (m *member) container() v1.Container {
	c := v1.Container{
		Name: m.name, Image: testbed.BusyboxImage,
		Command:      shell(m.script()),
		Env:          []v1.EnvVar{{Name: "ME", Value: m.name}},
		VolumeMounts: []v1.VolumeMount{{Name: "t", MountPath: "/t"}},
	}
	policy := m.policy
	if m.kind == sidecar {
		policy = v1.ContainerRestartPolicyAlways
	}
	if policy != "" {
		c.RestartPolicy = &policy
	}
	c.RestartPolicyRules = m.rules
	if m.postStart != "" || m.preStop != "" {
		c.Lifecycle = &v1.Lifecycle{PostStart: m.hook("post", m.postStart), PreStop: m.hook("pre", m.preStop)}
	}
	c.StartupProbe, c.LivenessProbe = probeOf(m.startup, 1000), probeOf(m.liveness, 1)
	return c
}

// script returns the script of the container. It writes "start" once it handles SIGTERM, if it does
// that from the beginning.
func (m *member) script() string {
	if trap, rest, ok := strings.Cut(m.does, " TERM; "); ok && strings.HasPrefix(trap, "trap ") {
		return trap + " TERM; log start; " + rest
	}
	return "log start; " + m.does
}

func probeOf(script string, failures int32) *v1.Probe {
	if script == "" {
		return nil
	}
	return &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: shell(script)}},
		PeriodSeconds: 1, FailureThreshold: failures, TimeoutSeconds: 300,
	}
}

func (m *member) hook(name, script string) *v1.LifecycleHandler {
	if script == "" {
		return nil
	}
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: shell(strings.ReplaceAll(script, "NAME", name))}}
}

// record has the lines of a pod's containers, in order, and the phase that the daemon reports.
type record struct {
	lines []string
	phase v1.PodPhase
}

// checkStatement checks one statement:
//
//	a start < b start   both lines exist, and the first "a start" is before the first "b start"
//	a start x 2         the line exists exactly twice
//	a start >= 2        the line exists at least twice
//	phase Running       the pod has the phase
func (r *record) checkStatement(statement string) error {
	count := func(line string) (n int) {
		for _, l := range r.lines {
			if l == line {
				n++
			}
		}
		return n
	}
	if phase, ok := strings.CutPrefix(statement, "phase "); ok {
		if string(r.phase) != phase {
			return fmt.Errorf("phase is %s, want %s", r.phase, phase)
		}
		return nil
	}
	if first, second, ok := strings.Cut(statement, " < "); ok {
		a, b := slices.Index(r.lines, first), slices.Index(r.lines, second)
		if a < 0 || b < 0 || a > b {
			return fmt.Errorf("%s: lines %d and %d", statement, a, b)
		}
		return nil
	}
	for _, op := range []string{" x ", " >= "} {
		if line, number, ok := strings.Cut(statement, op); ok {
			want, err := strconv.Atoi(number)
			if got := count(line); err != nil || got < want || op == " x " && got != want {
				return fmt.Errorf("%s: %d times (%v)", statement, got, err)
			}
			return nil
		}
	}
	return fmt.Errorf("%q is not a statement", statement)
}

// check returns an error for the statements that do not hold.
func (r *record) check(statements []string) error {
	var errs []error
	for _, s := range statements {
		errs = append(errs, r.checkStatement(s))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w\nlines: %s", err, strings.Join(r.lines, ", "))
	}
	return nil
}

// TestTimelines runs all cases at the same time, which may take minutes on a busy machine, and
// then removes the pods whose termination is checked.
func TestTimelines(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		directory := func(c *timeline) string { return filepath.Join(n.Dir(), "timelines", c.name) }
		read := func(c *timeline) *record {
			r := &record{}
			if text, err := os.ReadFile(filepath.Join(directory(c), "log")); err == nil {
				r.lines = strings.Split(strings.TrimSpace(string(text)), "\n")
			}
			if p, err := n.Pod(c.name); err == nil {
				r.phase = p.Status.Phase
			}
			return r
		}
		for i := range timelines {
			c := &timelines[i]
			if err := os.MkdirAll(directory(c), 0o777); err != nil {
				t.Fatal(err)
			}
			text, err := c.pod(directory(c))
			if err != nil {
				t.Fatal(err)
			}
			n.WriteManifest(c.name+".yaml", text)
		}
		n.MustStart()
		for i := range timelines {
			c := &timelines[i]
			t.Run(c.name, func(t *testing.T) {
				harness.Await(t, "the statements hold", func() error { return read(c).check(c.want) }, 20*time.Minute)
			})
		}
		// Terminate the pods whose termination order is checked, all at the same time.
		for i := range timelines {
			if c := &timelines[i]; len(c.ended) > 0 {
				n.RemoveManifest(c.name + ".yaml")
			}
		}
		for i := range timelines {
			c := &timelines[i]
			if len(c.ended) == 0 {
				continue
			}
			t.Run(c.name+"/ends", func(t *testing.T) {
				harness.Await(t, "the pod has terminated", func() error {
					if _, err := n.Pod(c.name); err == nil {
						return errors.New("it is still reported")
					}
					return nil
				}, 20*time.Minute)
				if err := read(c).check(c.ended); err != nil {
					t.Error(err)
				}
			})
		}
	})
}
