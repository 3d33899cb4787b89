package pods

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// exitOnTerm is the end of a script that runs until SIGTERM and records the time of the
// signal.
const exitOnTerm = `trap 'note term; exit 0' TERM; note start; while true; do sleep 0.05; done`

// mustBeInOrder fails the test unless the events were recorded in this order, at least gap
// seconds apart.
func mustBeInOrder(n *harness.Node, gap float64, what ...string) {
	n.T.Helper()
	last := 0.0
	for i, w := range what {
		at, ok := n.RecordedAt(w)
		switch {
		case !ok:
			n.T.Errorf("%s was not recorded", w)
		case i > 0 && at < last+gap:
			n.T.Errorf("%s was recorded %.2f s after %s, want %.2f s at least", w, at-last, what[i-1], gap)
		}
		last = at
	}
}

// hookServer starts an HTTP server on the host that records its requests.
func hookServer(n *harness.Node) (port int, requests func() []string) {
	n.T.Helper()
	var mu sync.Mutex
	var all []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		agent, _, _ := strings.Cut(r.UserAgent(), "/")
		all = append(all, r.URL.String()+" "+r.Header.Get("X-Who")+" "+agent)
	}))
	n.T.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// webScript serves /cgi-bin/hook, which records requests in /out/POD-CONTAINER-requests and
// responds with status 500, and a TCP port that records its first connection. Both ports are open
// when it ends.
const webScript = `mkdir -p /www/cgi-bin; printf '#!/bin/sh\necho "$QUERY_STRING" >> /out/'$ME'-requests\nprintf "Status: 500 No\r\n\r\n"\n' > /www/cgi-bin/hook; chmod 755 /www/cgi-bin/hook
httpd -p $WEB -h /www; nc -l -p $TCP -e sh -c '. /out/lib; note visited' &
until grep -qi "$(printf ':%04X ' $TCP)" /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done; `

// awaitOutput waits until a file of OutDir has this content.
func awaitOutput(n *harness.Node, file, want string) {
	n.T.Helper()
	n.Await(fmt.Sprintf("%s contains %q", file, want), func() error {
		got, err := os.ReadFile(filepath.Join(n.OutDir(), file))
		if err == nil && strings.TrimSpace(string(got)) != want {
			err = fmt.Errorf("it contains %q", got)
		}
		return err
	})
}

// postStart hooks of every kind. Each runs before the next container starts.
func TestPostStart(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		port, requests := hookServer(n)
		web := "WEB=8080 TCP=9090; " + webScript
		n.WriteManifest("p.yaml", n.ScriptedPod("p", 2, "",
			harness.ScriptedContainer{Name: "web", Script: web + exitOnTerm, Fields: "lifecycle: {postStart: {exec: {command: " +
				"[sh, -c, '. /out/lib; note hook; sleep 0.5; until [ -s /out/p-web-start ]; do sleep 0.1; done; note hooked']}}}"},
			harness.ScriptedContainer{Name: "b", Script: exitOnTerm, Fields: "ports: [{name: web, containerPort: " +
				"8080}]\nlifecycle: {postStart: {httpGet: {port: web, path: '/cgi-bin/hook?from=b', scheme: HTTPS}}}"},
			harness.ScriptedContainer{Name: "c", Script: exitOnTerm, Fields: fmt.Sprintf("lifecycle: {postStart: {httpGet: "+
				"{host: 127.0.0.1, port: %d, path: /c, httpHeaders: [{name: X-Who, value: me}]}}}", port)},
			harness.ScriptedContainer{Name: "d", Script: exitOnTerm,
				Fields: "lifecycle: {postStart: {tcpSocket: {port: 9090}}}"},
			harness.ScriptedContainer{Name: "e", Script: exitOnTerm, Fields: "lifecycle: {postStart: {sleep: {seconds: 1}}}"},
			harness.ScriptedContainer{Name: "f", Script: exitOnTerm, Fields: ""},
		))
		n.MustStart()
		n.AwaitRecorded("p-f-start")
		n.AwaitReady("p")
		mustBeInOrder(n, 0.5, "p-web-hook", "p-web-hooked")
		for _, next := range []string{"b", "c", "d", "e", "f"} {
			mustBeInOrder(n, 0, "p-web-hooked", "p-"+next+"-start")
		}
		if gap := n.Started("p", "f").Sub(n.Started("p", "e")); gap < time.Second {
			t.Errorf("f was started %s after e, whose hook sleeps 1 s", gap)
		}
		awaitOutput(n, "p-web-requests", "from=b")
		n.AwaitRecorded("p-web-visited")
		if got := fmt.Sprint(requests()); got != "[/c me podstead-lifecycle]" {
			t.Errorf("the host got the requests %s", got)
		}
	})
}

// A postStart hook that fails kills its container. One that hangs delays only its own pod and
// terminates with it. One that a daemon leaves unfinished runs again.
func TestPostStartFails(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("fails.yaml", n.ScriptedPod("fails", 60, "  restartPolicy: Never",
			harness.ScriptedContainer{Name: "main", Script: strings.Replace(exitOnTerm, "exit 0", "exit 1", 1),
				Fields: "lifecycle: {postStart: {exec: {command: [sh, -c, 'until [ -s /out/fails-main-start ]; do sleep 0.1; " +
					"done; echo no database; exit 3']}}}"}))
		// A termination that waits for the hook, or for the grace period first, takes longer than
		// the test waits.
		n.WriteManifest("hangs.yaml", n.ScriptedPod("hangs", 3600, "",
			harness.ScriptedContainer{Name: "main", Script: exitOnTerm,
				Fields: "lifecycle: {postStart: {exec: {command: [sh, -c, '. /out/lib; note hook; sleep 4242']}}}"},
			harness.ScriptedContainer{Name: "next", Script: exitOnTerm, Fields: ""}))
		n.WriteManifest("again.yaml", n.ScriptedPod("again", 2, "",
			harness.ScriptedContainer{Name: "main", Script: exitOnTerm, Fields: "lifecycle: {postStart: {exec: {command: [sh, " +
				"-c, '. /out/lib; echo >> /out/runs; until [ -e /out/go ]; do sleep 0.1; done; note hooked']}}}"}))
		n.MustStart()
		n.AwaitPhase("fails", v1.PodFailed)
		n.AwaitEvent("fails", "FailedPostStartHook", "container main", "exited with 3: no database")
		n.AwaitRecorded("fails-main-term")

		first := n.AwaitRunning("again")
		n.Await("the hook runs", func() error {
			if n.Lines("runs") != 1 {
				return errors.New("not yet")
			}
			return nil
		})
		// A container whose start is ended with its caller would not hold up the next one.
		n.AwaitRecorded("hangs-main-hook")
		n.Kill()
		allowExit(n, "go")
		n.MustStart()
		n.AwaitRecorded("again-main-hooked")
		n.AwaitReady("again")
		n.Restart()
		n.AwaitReady("again")
		n.MustStillRun("again", first)
		if got := n.Lines("runs"); got != 2 {
			t.Errorf("the hook ran %d times, want once for each daemon that did not see it complete", got)
		}

		n.AwaitRecorded("hangs-main-hook")
		n.AwaitRecorded("hangs-main-start")
		n.AwaitStatus("hangs", "running, but not started", func(p v1.Pod) error {
			for _, c := range p.Status.ContainerStatuses {
				if c.Name == "main" && c.State.Running != nil && !c.Ready && c.Started != nil && !*c.Started {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.Status.ContainerStatuses)
		})
		if _, early := n.RecordedAt("hangs-next-start"); early {
			t.Error("the next container was started before the hook had returned")
		}
		n.RemoveManifest("hangs.yaml")
		n.AwaitGone("hangs")
		n.AwaitRecorded("hangs-main-term")
	})
}

// preStop hooks of every kind run before the termination of a container, within its grace
// period.
func TestPreStop(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		port, requests := hookServer(n)
		// It serves until the other container's hook has connected and its record has content.
		web := "WEB=8080 TCP=9090; " + webScript +
			strings.Replace(exitOnTerm, "trap '", "trap 'until [ -s /out/p-web-visited ]; do sleep 0.1; done; ", 1)
		onHost := harness.HostPort()
		n.WriteManifest("p.yaml", n.ScriptedPod("p", 240, "",
			harness.ScriptedContainer{Name: "exec", Script: exitOnTerm,
				Fields: "lifecycle: {preStop: {exec: {command: [sh, -c, '. /out/lib; note hook; sleep 1; note hooked']}}}"},
			harness.ScriptedContainer{Name: "web", Script: web, Fields: "ports: [{name: web, containerPort: " +
				"8080}]\nlifecycle: {preStop: {httpGet: {port: web, path: '/cgi-bin/hook?stop', scheme: HTTPS}}}"},
			harness.ScriptedContainer{Name: "tcp", Script: exitOnTerm,
				Fields: "lifecycle: {preStop: {tcpSocket: {port: 9090}}}"},
			harness.ScriptedContainer{Name: "host", Script: exitOnTerm, Fields: fmt.Sprintf("lifecycle: {preStop: {httpGet: "+
				"{host: 127.0.0.1, port: %d, path: /host, httpHeaders: [{name: X-Who, value: me}]}}}", port)},
			harness.ScriptedContainer{Name: "sleep", Script: exitOnTerm, Fields: "lifecycle: {preStop: {sleep: {seconds: 2}}}"},
		))
		n.WriteManifest("q.yaml", n.ScriptedPod("q", 4, "",
			harness.ScriptedContainer{Name: "hang", Script: "trap 'note term; exit 0' TERM; note start; sleep 100000 & wait",
				Fields: "lifecycle: {preStop: {exec: {command: [sleep, '4242']}}}"}))
		n.WriteManifest("h.yaml", n.ScriptedPod("h", 240, "  hostNetwork: true",
			harness.ScriptedContainer{Name: "main",
				Script: fmt.Sprintf("WEB=%d TCP=%d; ", onHost, harness.HostPort()) + webScript + exitOnTerm,
				Fields: fmt.Sprintf("lifecycle: {preStop: {httpGet: {port: %d, path: '/cgi-bin/hook?node'}}}", onHost)}))
		n.MustStart()
		for _, container := range []string{"exec", "web", "tcp", "host", "sleep"} {
			n.AwaitRecorded("p-" + container + "-start")
		}
		n.AwaitRecorded("q-hang-start")
		n.AwaitRecorded("h-main-start")
		n.AwaitReady("p")
		begun := harness.Uptime(t)
		n.RemoveManifest("p.yaml")
		n.RemoveManifest("q.yaml")
		n.RemoveManifest("h.yaml")
		n.AwaitGone("p")
		mustBeInOrder(n, 0, "p-exec-hook", "p-exec-hooked", "p-exec-term")
		mustBeInOrder(n, 1, "p-exec-hook", "p-exec-hooked")
		awaitOutput(n, "p-web-requests", "stop")
		n.AwaitRecorded("p-web-visited")
		if got := fmt.Sprint(requests()); got != "[/host me podstead-lifecycle]" {
			t.Errorf("the host got the requests %s", got)
		}
		if at := n.AwaitRecorded("p-sleep-term"); at < begun+2 {
			t.Errorf("SIGTERM came %.2f s after the removal, want 2 s", at-begun)
		}
		// The hook that hangs used up the grace period; the minimum time follows.
		if at := n.AwaitRecorded("q-hang-term"); at < begun+4 {
			t.Errorf("SIGTERM came %.2f s after the removal, want 4 s", at-begun)
		}
		n.AwaitGone("q")
		n.AwaitEvent("q", "FailedPreStopHook", "PreStopHook failed: ", "within the grace period", "(container hang)")
		n.AwaitGone("h")
		awaitOutput(n, "h-main-requests", "node")
	})
}

// The preStop hook also runs if the manifest was removed while no daemon ran. A hook that a
// daemon leaves unfinished runs again.
func TestPreStopOverRestarts(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		// The hooks end once the first daemon has been killed.
		const hook = "lifecycle: {preStop: {exec: {command: [sh, -c, '. /out/lib; echo >> /out/$ME-runs; note hook; until " +
			"[ -e /out/killed ]; do sleep 0.1; done; note hooked']}}}"
		// A grace period that is long enough on a busy machine, where an exec begins late.
		n.WriteManifest("gone.yaml", n.ScriptedPod("gone", 900, "",
			harness.ScriptedContainer{Name: "main", Script: exitOnTerm, Fields: hook}))
		n.WriteManifest("half.yaml", n.ScriptedPod("half", 900, "",
			harness.ScriptedContainer{Name: "main", Script: exitOnTerm, Fields: hook}))
		n.MustStart()
		n.AwaitRecorded("gone-main-start")
		n.AwaitRecorded("half-main-start")
		n.RemoveManifest("half.yaml")
		n.AwaitRecorded("half-main-hook")
		n.Kill()
		allowExit(n, "killed")
		n.RemoveManifest("gone.yaml")
		n.MustStart()
		n.AwaitGone("gone")
		n.AwaitGone("half")
		for pod, runs := range map[string]int{"gone": 1, "half": 2} {
			mustBeInOrder(n, 0, pod+"-main-hook", pod+"-main-hooked", pod+"-main-term")
			if got := n.Lines(pod + "-main-runs"); got != runs {
				t.Errorf("the hook of %s ran %d times, want %d", pod, got, runs)
			}
		}
	})
}

// The stop signal is the one in the manifest. On a runtime that would send another signal, the
// pod is held.
func TestStopSignal(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		script := "trap 'note usr1; exit 0' USR1; " + exitOnTerm
		n.WriteManifest("p.yaml", n.ScriptedPod("p", 60, "  os: {name: linux}",
			harness.ScriptedContainer{Name: "main", Script: script, Fields: "lifecycle: {stopSignal: SIGUSR1}"}))
		n.MustStart()
		if n.Runtime.Kind == testbed.Containerd16 {
			p := n.AwaitStatus("p", "is held because of the runtime", func(p v1.Pod) error {
				if p.Status.Reason != "NotSupportedByRuntime" {
					return fmt.Errorf("%s %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
				}
				return nil
			})
			for _, word := range []string{"spec.containers[0].lifecycle.stopSignal", "containerd 1.6.20",
				"containerd 2.3 or later"} {
				if !strings.Contains(p.Status.Message, word) {
					t.Errorf("%q is not in %q", word, p.Status.Message)
				}
			}
			if all, err := n.Sandboxes("p"); err != nil || len(all) > 0 {
				t.Errorf("sandboxes %v, %v, want none", all, err)
			}
			n.WriteManifest("p.yaml", n.ScriptedPod("p", 60, "  os: {name: linux}",
				harness.ScriptedContainer{Name: "main", Script: script, Fields: ""}))
		}
		n.AwaitRecorded("p-main-start")
		if n.Runtime.Kind == testbed.Containerd24 {
			p := n.AwaitReady("p")
			if s := p.Status.ContainerStatuses[0].StopSignal; s == nil || *s != v1.SIGUSR1 {
				t.Errorf("the status shows the signal %v", s)
			}
		}
		n.RemoveManifest("p.yaml")
		n.AwaitRecorded("p-main-" + map[testbed.Kind]string{testbed.Containerd16: "term",
			testbed.Containerd24: "usr1"}[n.Runtime.Kind])
		n.AwaitGone("p")
	})
}
