package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/testbed"
)

// outDir returns a directory of the host that outlives pods. The pods of scriptedPod mount it
// at /out, in addition to an emptyDir at /data.
func (n *node) outDir() string { return filepath.Join(n.Dir(), "out") }

// scriptedContainer is a container of scriptedPod: its script, and additional fields as YAML.
type scriptedContainer struct{ name, script, fields string }

// exitOnTerm is the end of a script that runs until SIGTERM and records the time of the
// signal.
const exitOnTerm = `trap 'note term; exit 0' TERM; note start; while true; do sleep 0.05; done`

// scriptedPod returns the manifest of a pod with a grace period, fields of its spec as YAML,
// and containers. In their scripts and commands, and in hooks that source /out/lib, "note X"
// writes the time since boot to /out/POD-CONTAINER-X. It starts no process: a trap may have only
// two seconds.
func (n *node) scriptedPod(name string, grace int, spec string, parts ...scriptedContainer) string {
	n.t.Helper()
	const lib = "note() { read up rest < /proc/uptime; echo $up > /out/$ME-$1; }\n"
	writeAll(n.t, n.outDir(), map[string]string{"lib": lib})
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  terminationGracePeriodSeconds: %d\n", name, grace)
	fmt.Fprintf(&b, "  volumes: [{name: out, hostPath: {path: %s}}, {name: data, emptyDir: {}}]\n%s\n", n.outDir(), spec)
	list := ""
	for _, c := range parts {
		at := "containers"
		if strings.Contains(c.fields, "restartPolicy: Always") {
			at = "initContainers"
		}
		if at != list {
			fmt.Fprintf(&b, "  %s:\n", at)
			list = at
		}
		fmt.Fprintf(&b, `    - name: %s
      image: %s
      command: ["sh", "-c", %q]
      env: [{name: ME, value: %s-%s}]
      volumeMounts: [{name: out, mountPath: /out}, {name: data, mountPath: /data}]
`, c.name, testbed.BusyboxImage, ". /out/lib; "+c.script, name, c.name)
		for line := range strings.Lines(c.fields) {
			b.WriteString("      " + strings.TrimRight(line, "\n") + "\n")
		}
	}
	return b.String()
}

// recordedAt returns when a container recorded an event, in seconds since boot, and false if
// it has not.
func (n *node) recordedAt(what string) (float64, bool) {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.outDir(), what))
	if err != nil || !strings.HasSuffix(string(text), "\n") {
		return 0, false // or it is being written
	}
	at, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil {
		n.t.Fatalf("%s: %v", what, err)
	}
	return at, true
}

// awaitRecorded waits until a container has recorded an event and returns its time.
func (n *node) awaitRecorded(what string) float64 {
	n.t.Helper()
	var at float64
	n.await(what+" is recorded", func() error {
		var ok bool
		if at, ok = n.recordedAt(what); !ok {
			return errors.New("not yet")
		}
		return nil
	})
	return at
}

// mustBeInOrder fails the test unless the events were recorded in this order, at least gap
// seconds apart.
func (n *node) mustBeInOrder(gap float64, what ...string) {
	n.t.Helper()
	last := 0.0
	for i, w := range what {
		at, ok := n.recordedAt(w)
		switch {
		case !ok:
			n.t.Errorf("%s was not recorded", w)
		case i > 0 && at < last+gap:
			n.t.Errorf("%s was recorded %.2f s after %s, want %.2f s at least", w, at-last, what[i-1], gap)
		}
		last = at
	}
}

// uptime returns the time since boot, as recorded.
func uptime(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	at, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// started returns when the runtime started a running container.
func (n *node) started(pod, container string) time.Time {
	n.t.Helper()
	st, err := n.rt.CRI.Runtime.ContainerStatus(n.t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: n.awaitContainer(pod, container).ID})
	if err != nil {
		n.t.Fatal(err)
	}
	return time.Unix(0, st.Status.StartedAt)
}

// lines returns the number of lines of a file in outDir.
func (n *node) lines(file string) int {
	text, _ := os.ReadFile(filepath.Join(n.outDir(), file))
	return strings.Count(string(text), "\n")
}

// awaitEvent waits for an event of a pod with a message that contains the words.
func (n *node) awaitEvent(pod, reason string, words ...string) {
	n.t.Helper()
	n.await(fmt.Sprintf("event %s of %s contains %q", reason, pod, words), func() error {
		body, err := n.Get(n.t.Context(), "/podstead/v1/events?pod="+pod)
		if err != nil {
			return err
		}
		var list v1.EventList
		if err := json.Unmarshal(body, &list); err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			seen = append(seen, e.Reason+": "+e.Message)
			if e.Reason == reason && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e.Message, w) }) {
				return nil
			}
		}
		return fmt.Errorf("events are %q", seen)
	})
}

// hookServer starts an HTTP server on the host that records its requests.
func (n *node) hookServer() (port int, requests func() []string) {
	n.t.Helper()
	var mu sync.Mutex
	var all []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		agent, _, _ := strings.Cut(r.UserAgent(), "/")
		all = append(all, r.URL.String()+" "+r.Header.Get("X-Who")+" "+agent)
	}))
	n.t.Cleanup(server.Close)
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

// awaitOutput waits until a file of outDir has this content.
func (n *node) awaitOutput(file, want string) {
	n.t.Helper()
	n.await(fmt.Sprintf("%s contains %q", file, want), func() error {
		got, err := os.ReadFile(filepath.Join(n.outDir(), file))
		if err == nil && strings.TrimSpace(string(got)) != want {
			err = fmt.Errorf("it contains %q", got)
		}
		return err
	})
}

// postStart hooks of every kind. Each runs before the next container starts.
func TestPostStart(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		port, requests := n.hookServer()
		web := "WEB=8080 TCP=9090; " + webScript
		n.writeManifest("p.yaml", n.scriptedPod("p", 2, "",
			scriptedContainer{"web", web + exitOnTerm, "lifecycle: {postStart: {exec: {command: [sh, -c, '. /out/lib; note hook; sleep 0.5; until [ -s /out/p-web-start ]; do sleep 0.1; done; note hooked']}}}"},
			scriptedContainer{"b", exitOnTerm, "ports: [{name: web, containerPort: 8080}]\nlifecycle: {postStart: {httpGet: {port: web, path: '/cgi-bin/hook?from=b', scheme: HTTPS}}}"},
			scriptedContainer{"c", exitOnTerm, fmt.Sprintf("lifecycle: {postStart: {httpGet: {host: 127.0.0.1, port: %d, path: /c, httpHeaders: [{name: X-Who, value: me}]}}}", port)},
			scriptedContainer{"d", exitOnTerm, "lifecycle: {postStart: {tcpSocket: {port: 9090}}}"},
			scriptedContainer{"e", exitOnTerm, "lifecycle: {postStart: {sleep: {seconds: 1}}}"},
			scriptedContainer{"f", exitOnTerm, ""},
		))
		n.start()
		n.awaitRecorded("p-f-start")
		n.awaitReady("p")
		n.mustBeInOrder(0.5, "p-web-hook", "p-web-hooked")
		for _, next := range []string{"b", "c", "d", "e", "f"} {
			n.mustBeInOrder(0, "p-web-hooked", "p-"+next+"-start")
		}
		if gap := n.started("p", "f").Sub(n.started("p", "e")); gap < time.Second {
			t.Errorf("f was started %s after e, whose hook sleeps 1 s", gap)
		}
		n.awaitOutput("p-web-requests", "from=b")
		n.awaitRecorded("p-web-visited")
		if got := fmt.Sprint(requests()); got != "[/c me podstead-lifecycle]" {
			t.Errorf("the host got the requests %s", got)
		}
	})
}

// A postStart hook that fails kills its container. One that hangs delays only its own pod and
// terminates with it. One that a daemon leaves unfinished runs again.
func TestPostStartFails(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("fails.yaml", n.scriptedPod("fails", 60, "  restartPolicy: Never",
			scriptedContainer{"main", strings.Replace(exitOnTerm, "exit 0", "exit 1", 1), "lifecycle: {postStart: {exec: {command: [sh, -c, 'until [ -s /out/fails-main-start ]; do sleep 0.1; done; echo no database; exit 3']}}}"}))
		// A termination that waits for the hook, or for the grace period first, takes longer than
		// the test waits.
		n.writeManifest("hangs.yaml", n.scriptedPod("hangs", 3600, "",
			scriptedContainer{"main", exitOnTerm, "lifecycle: {postStart: {exec: {command: [sh, -c, '. /out/lib; note hook; sleep 4242']}}}"},
			scriptedContainer{"next", exitOnTerm, ""}))
		n.writeManifest("again.yaml", n.scriptedPod("again", 2, "",
			scriptedContainer{"main", exitOnTerm, "lifecycle: {postStart: {exec: {command: [sh, -c, '. /out/lib; echo >> /out/runs; until [ -e /out/go ]; do sleep 0.1; done; note hooked']}}}"}))
		n.start()
		n.awaitPhase("fails", v1.PodFailed)
		n.awaitEvent("fails", "FailedPostStartHook", "container main", "exited with 3: no database")
		n.awaitRecorded("fails-main-term")

		first := n.awaitRunning("again")
		n.await("the hook runs", func() error {
			if n.lines("runs") != 1 {
				return errors.New("not yet")
			}
			return nil
		})
		// A container whose start is ended with its caller would not hold up the next one.
		n.awaitRecorded("hangs-main-hook")
		n.Kill()
		n.allowExit("go")
		n.start()
		n.awaitRecorded("again-main-hooked")
		n.awaitReady("again")
		n.restart()
		n.awaitReady("again")
		n.mustStillRun("again", first)
		if got := n.lines("runs"); got != 2 {
			t.Errorf("the hook ran %d times, want once for each daemon that did not see it complete", got)
		}

		n.awaitRecorded("hangs-main-hook")
		n.awaitRecorded("hangs-main-start")
		n.awaitStatus("hangs", "running, but not started", func(p v1.Pod) error {
			for _, c := range p.Status.ContainerStatuses {
				if c.Name == "main" && c.State.Running != nil && !c.Ready && c.Started != nil && !*c.Started {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.Status.ContainerStatuses)
		})
		if _, early := n.recordedAt("hangs-next-start"); early {
			t.Error("the next container was started before the hook had returned")
		}
		n.removeManifest("hangs.yaml")
		n.awaitGone("hangs")
		n.awaitRecorded("hangs-main-term")
	})
}

// preStop hooks of every kind run before the termination of a container, within its grace
// period.
func TestPreStop(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		port, requests := n.hookServer()
		// It serves until the other container's hook has connected and its record has content.
		web := "WEB=8080 TCP=9090; " + webScript + strings.Replace(exitOnTerm, "trap '", "trap 'until [ -s /out/p-web-visited ]; do sleep 0.1; done; ", 1)
		onHost := hostPort()
		n.writeManifest("p.yaml", n.scriptedPod("p", 240, "",
			scriptedContainer{"exec", exitOnTerm, "lifecycle: {preStop: {exec: {command: [sh, -c, '. /out/lib; note hook; sleep 1; note hooked']}}}"},
			scriptedContainer{"web", web, "ports: [{name: web, containerPort: 8080}]\nlifecycle: {preStop: {httpGet: {port: web, path: '/cgi-bin/hook?stop', scheme: HTTPS}}}"},
			scriptedContainer{"tcp", exitOnTerm, "lifecycle: {preStop: {tcpSocket: {port: 9090}}}"},
			scriptedContainer{"host", exitOnTerm, fmt.Sprintf("lifecycle: {preStop: {httpGet: {host: 127.0.0.1, port: %d, path: /host, httpHeaders: [{name: X-Who, value: me}]}}}", port)},
			scriptedContainer{"sleep", exitOnTerm, "lifecycle: {preStop: {sleep: {seconds: 2}}}"},
		))
		n.writeManifest("q.yaml", n.scriptedPod("q", 4, "",
			scriptedContainer{"hang", "trap 'note term; exit 0' TERM; note start; sleep 100000 & wait", "lifecycle: {preStop: {exec: {command: [sleep, '4242']}}}"}))
		n.writeManifest("h.yaml", n.scriptedPod("h", 240, "  hostNetwork: true",
			scriptedContainer{"main", fmt.Sprintf("WEB=%d TCP=%d; ", onHost, hostPort()) + webScript + exitOnTerm,
				fmt.Sprintf("lifecycle: {preStop: {httpGet: {port: %d, path: '/cgi-bin/hook?node'}}}", onHost)}))
		n.start()
		for _, container := range []string{"exec", "web", "tcp", "host", "sleep"} {
			n.awaitRecorded("p-" + container + "-start")
		}
		n.awaitRecorded("q-hang-start")
		n.awaitRecorded("h-main-start")
		n.awaitReady("p")
		begun := uptime(t)
		n.removeManifest("p.yaml")
		n.removeManifest("q.yaml")
		n.removeManifest("h.yaml")
		n.awaitGone("p")
		n.mustBeInOrder(0, "p-exec-hook", "p-exec-hooked", "p-exec-term")
		n.mustBeInOrder(1, "p-exec-hook", "p-exec-hooked")
		n.awaitOutput("p-web-requests", "stop")
		n.awaitRecorded("p-web-visited")
		if got := fmt.Sprint(requests()); got != "[/host me podstead-lifecycle]" {
			t.Errorf("the host got the requests %s", got)
		}
		if at := n.awaitRecorded("p-sleep-term"); at < begun+2 {
			t.Errorf("SIGTERM came %.2f s after the removal, want 2 s", at-begun)
		}
		// The hook that hangs used up the grace period; the minimum time follows.
		if at := n.awaitRecorded("q-hang-term"); at < begun+4 {
			t.Errorf("SIGTERM came %.2f s after the removal, want 4 s", at-begun)
		}
		n.awaitGone("q")
		n.awaitEvent("q", "FailedPreStopHook", "PreStopHook failed: ", "within the grace period", "(container hang)")
		n.awaitGone("h")
		n.awaitOutput("h-main-requests", "node")
	})
}

// The preStop hook also runs if the manifest was removed while no daemon ran. A hook that a
// daemon leaves unfinished runs again.
func TestPreStopOverRestarts(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		// The hooks end once the first daemon has been killed.
		const hook = "lifecycle: {preStop: {exec: {command: [sh, -c, '. /out/lib; echo >> /out/$ME-runs; note hook; until [ -e /out/killed ]; do sleep 0.1; done; note hooked']}}}"
		// A grace period that is long enough on a busy machine, where an exec begins late.
		n.writeManifest("gone.yaml", n.scriptedPod("gone", 900, "", scriptedContainer{"main", exitOnTerm, hook}))
		n.writeManifest("half.yaml", n.scriptedPod("half", 900, "", scriptedContainer{"main", exitOnTerm, hook}))
		n.start()
		n.awaitRecorded("gone-main-start")
		n.awaitRecorded("half-main-start")
		n.removeManifest("half.yaml")
		n.awaitRecorded("half-main-hook")
		n.Kill()
		n.allowExit("killed")
		n.removeManifest("gone.yaml")
		n.start()
		n.awaitGone("gone")
		n.awaitGone("half")
		for pod, runs := range map[string]int{"gone": 1, "half": 2} {
			n.mustBeInOrder(0, pod+"-main-hook", pod+"-main-hooked", pod+"-main-term")
			if got := n.lines(pod + "-main-runs"); got != runs {
				t.Errorf("the hook of %s ran %d times, want %d", pod, got, runs)
			}
		}
	})
}

// The stop signal is the one in the manifest. On a runtime that would send another signal, the
// pod is held.
func TestStopSignal(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		script := "trap 'note usr1; exit 0' USR1; " + exitOnTerm
		n.writeManifest("p.yaml", n.scriptedPod("p", 60, "  os: {name: linux}", scriptedContainer{"main", script, "lifecycle: {stopSignal: SIGUSR1}"}))
		n.start()
		if n.rt.Kind == testbed.Containerd16 {
			p := n.awaitStatus("p", "is held because of the runtime", func(p v1.Pod) error {
				if p.Status.Reason != "NotSupportedByRuntime" {
					return fmt.Errorf("%s %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
				}
				return nil
			})
			for _, word := range []string{"spec.containers[0].lifecycle.stopSignal", "containerd 1.6.20", "containerd 2.3 or later"} {
				if !strings.Contains(p.Status.Message, word) {
					t.Errorf("%q is not in %q", word, p.Status.Message)
				}
			}
			if all, err := n.sandboxes("p"); err != nil || len(all) > 0 {
				t.Errorf("sandboxes %v, %v, want none", all, err)
			}
			n.writeManifest("p.yaml", n.scriptedPod("p", 60, "  os: {name: linux}", scriptedContainer{"main", script, ""}))
		}
		n.awaitRecorded("p-main-start")
		if n.rt.Kind == testbed.Containerd24 {
			p := n.awaitReady("p")
			if s := p.Status.ContainerStatuses[0].StopSignal; s == nil || *s != v1.SIGUSR1 {
				t.Errorf("the status shows the signal %v", s)
			}
		}
		n.removeManifest("p.yaml")
		n.awaitRecorded("p-main-" + map[testbed.Kind]string{testbed.Containerd16: "term", testbed.Containerd24: "usr1"}[n.rt.Kind])
		n.awaitGone("p")
	})
}
