package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// testPod is a pod with one container, whose shell has the pod's name and revision in its
// arguments. instances finds it in the kernel by them.
type testPod struct {
	name, revision string
	// script is what the shell runs; it sleeps if empty.
	script string
	// grace is the termination grace period in seconds; 10 if zero.
	grace int
	// spec, container and annotations are more fields, in the flow style of YAML; those of spec and
	// container have a leading comma.
	spec, container, annotations string
	// image is busybox if empty.
	image string
}

const sleepScript = "trap 'exit 0' TERM; while :; do sleep 1000 & wait; done"

func (p testPod) manifest() string {
	if p.script == "" {
		p.script = sleepScript
	}
	if p.grace == 0 {
		p.grace = 10
	}
	if p.image == "" {
		p.image = testbed.BusyboxImage
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {revision: "%s"}, annotations: {%s}}
spec: {terminationGracePeriodSeconds: %d, containers: [{name: main, image: %s,
  command: [sh, -c, %q, "mark=%s=%s"]%s}]%s}
`, p.name, p.revision, p.annotations, p.grace, p.image, p.script, p.name, p.revision, p.container, p.spec)
}

// apply writes the manifests of pods.
func apply(m *Machine, pods ...testPod) {
	m.t.Helper()
	for _, p := range pods {
		m.Write("/etc/pods/"+p.name+".yaml", p.manifest())
	}
}

// instances returns the revisions of each test pod that run, as the kernel shows them: one for
// each container that has a process of the pod.
func instances(m *Machine) (map[string][]string, error) {
	// A shell that has forked shows its arguments twice, in one PID namespace.
	out, err := m.agent("marks")
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for line := range strings.Lines(out) {
		_, mark, _ := strings.Cut(strings.TrimSpace(line), " ")
		if part := strings.Split(mark, "="); len(part) == 3 {
			all[part[1]] = append(all[part[1]], part[2])
		}
	}
	return all, nil
}

// awaitInstances waits until exactly these revisions run, by pod. An empty revision is a pod that
// must not run.
func awaitInstances(m *Machine, want map[string]string, limit time.Duration) {
	m.t.Helper()
	m.Await("the pods run", limit, func() error {
		got, err := instances(m)
		if err != nil {
			return err
		}
		for name, revision := range want {
			if revision == "" && len(got[name]) > 0 || revision != "" && !slices.Equal(got[name], []string{revision}) {
				return fmt.Errorf("%s runs with the revisions %q, want %q", name, got[name], revision)
			}
		}
		for name := range got {
			if _, ok := want[name]; !ok {
				return fmt.Errorf("%s runs with the revisions %q, want none", name, got[name])
			}
		}
		return nil
	})
}

// daemonSocket is the socket of the daemon's API.
const daemonSocket = "/run/podstead/podstead.sock"

// pods returns the pods that podstead reports, by the name in the manifest.
func pods(m *Machine) (map[string]v1.Pod, error) {
	out, err := m.agent("get", daemonSocket, "/pods")
	if err != nil {
		return nil, err
	}
	var list v1.PodList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	all := map[string]v1.Pod{}
	for _, p := range list.Items {
		all[strings.TrimSuffix(p.Name, "-machine")] = p
	}
	return all, nil
}

// awaitReady waits until podstead reports these pods as ready, and returns them.
func awaitReady(m *Machine, limit time.Duration, names ...string) (all map[string]v1.Pod) {
	m.t.Helper()
	m.Await("the pods are ready", limit, func() (err error) {
		if all, err = pods(m); err != nil {
			return err
		}
		for _, name := range names {
			if !isReady(all[name]) {
				return fmt.Errorf("%s is not ready: %s %s %s", name, all[name].Status.Phase, all[name].Status.Reason,
					all[name].Status.Message)
			}
		}
		return nil
	})
	return all
}

func isReady(p v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions,
		func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue })
}

// mainPid returns the host's process ID of the main process of a test pod.
func mainPid(m *Machine, name string) string {
	m.t.Helper()
	out := m.Sh("pgrep -o -f 'mar[k]=" + name + "='")
	return strings.TrimSpace(out)
}

// mustHave checks the value of a file.
func mustHave(m *Machine, file, want string) {
	m.t.Helper()
	if got, err := m.Try("cat " + file); err != nil || got != want {
		m.t.Errorf("%s is %q (%v), want %q", file, got, err, want)
	}
}

// serviceWith replaces the daemon's command line.
func serviceWith(m *Machine, args string) {
	m.t.Helper()
	m.Write("/etc/systemd/system/podstead.service.d/test.conf",
		"[Service]\nExecStart=\nExecStart=/usr/local/bin/podstead run "+args+"\n")
	m.Sh("systemctl daemon-reload && systemctl restart podstead")
}
