package systemd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// A host shuts down through logind or through systemd alone, or cancels the shutdown: pods
// terminate by priority, each with its hooks and its grace period, no shim is left when
// podstead has exited, and all pods start again in order.
func TestHostShutdown(t *testing.T) {
	t.Parallel()
	t.Run("system runtime", func(t *testing.T) {
		// The cgroups of its shims are units, which podstead has systemd stop.
		// The first group has minutes, so that the shutdown can be cancelled on a busy machine too.
		s := boot(t, false, shutdownFiles, shutdownPeriods("300s"),
			map[string]string{"etc/containerd/config.toml": harness.SystemdDriver})
		awaitAll(s, 0, shutdownPods...)
		awaitStarts(s)
		mustHaveRecorded(s, "client-start", "crit-start", "low-start", "mid-start", "stubborn-start") // sorted
		if got := s.Try("busctl", "get-property", "org.freedesktop.login1", "/org/freedesktop/login1",
			"org.freedesktop.login1.Manager", "InhibitDelayMaxUSec"); got != "t 665000000" {
			t.Errorf("InhibitDelayMaxUSec is %q, want 665 s", got)
		}
		// A cancelled shutdown.
		s.Run("systemctl", "reboot")
		awaitRecord(s, "stubborn-term")
		s.Run("sh", "-c", "sed s/low/fresh/g /etc/pods/low.yaml > /etc/pods/fresh.yaml")
		harness.Await(t, "the node and a new pod report the shutdown", func() error {
			if fresh := podNamed(s, "fresh"); fresh.Status.Reason != "NodeShutdown" || fresh.Status.Phase != v1.PodPending {
				return fmt.Errorf("%+v", fresh.Status)
			}
			var nodes v1.NodeList
			if getJSON(s, "/api/v1/nodes", &nodes); len(nodes.Items) != 1 {
				return errors.New("no answer")
			}
			for _, c := range nodes.Items[0].Status.Conditions {
				if c.Type == v1.NodeReady && c.Status == v1.ConditionFalse && strings.Contains(c.Message, "shutting down") {
					return nil
				}
			}
			return fmt.Errorf("%+v", nodes.Items[0].Status.Conditions)
		})
		harness.Await(t, "a pod of the first group has terminated", func() error {
			if low := podNamed(s, "low"); low.Status.Phase != v1.PodFailed || low.Status.Reason != "Terminated" {
				return fmt.Errorf("%+v", low.Status)
			}
			return nil
		})
		s.Run("systemctl", "restart", "systemd-logind")
		s.Run("touch", "/records/release")
		awaitAll(s, 1, "low", "stubborn")
		awaitAll(s, 0, "fresh")
		s.Run("rm", "/etc/pods/fresh.yaml")
		harness.Await(t, "the new pod is removed", func() error {
			if fresh := podNamed(s, "fresh"); fresh.Name != "" {
				return errors.New(string(fresh.Status.Phase))
			}
			return nil
		})

		s.WriteFiles(shutdownPeriods(shortPeriod))
		s.Run("systemctl", "daemon-reload")
		s.Run("systemctl", "restart", "podstead")
		awaitAll(s, 1, "low", "stubborn")
		shutdownAndBoot(s, "systemctl", "reboot")
		n := s.Node()
		crit, mid := n.Started("crit", "main"), n.Started("mid", "main")
		if low, stubborn := n.Started("low", "main"), n.Started("stubborn", "main"); !crit.Before(mid) || !mid.Before(low) ||
			!mid.Before(stubborn) {
			t.Errorf("started were crit at %s, mid at %s, low at %s, stubborn at %s", crit, mid, low, stubborn)
		}
		if client := n.Started("client", "main"); !mid.Before(client) {
			t.Errorf("started were mid at %s, client, which depends on it, at %s", mid, client)
		}
		if got := s.Try("podstead", "logs", "-p", "low"); !strings.Contains(got, "low was here") {
			t.Errorf("the log before the boot: %s", got)
		}
	})
	t.Run("private runtime", func(t *testing.T) {
		s := boot(t, true, shutdownFiles, shutdownPeriods(shortPeriod))
		awaitAll(s, 0, shutdownPods...)
		awaitStarts(s)
		// SIGRTMIN+4 makes systemd power off immediately, without logind.
		shutdownAndBoot(s, "sh", "-c", "kill -38 1")
		clearRecords(s)
		asked := harness.Uptime(t)
		s.Run("systemctl", "poweroff")
		s.AwaitShutdown()
		mustShutDownInOrder(s, "systemctl poweroff", asked)
	})
}

// shutdownAndBoot shuts the machine down, boots it again and waits until all pods run with one
// more restart. Afterwards the records are those of their start.
func shutdownAndBoot(s *harness.Machine, ask ...string) {
	s.T.Helper()
	counts := map[string]int32{}
	for _, name := range shutdownPods {
		harness.Await(s.T, "the restarts of "+name, func() error {
			status := podNamed(s, name).Status.ContainerStatuses
			if len(status) != 1 {
				return fmt.Errorf("%+v", status)
			}
			counts[name] = status[0].RestartCount
			return nil
		})
	}
	clearRecords(s)
	asked := harness.Uptime(s.T)
	s.Run(ask...)
	s.AwaitShutdown()
	mustShutDownInOrder(s, strings.Join(ask, " "), asked)
	clearRecords(s)
	s.PowerOn()
	for name, count := range counts {
		awaitAll(s, count+1, name)
	}
	awaitStarts(s)
}

// awaitStarts waits until all pods have recorded their start: they run a moment before.
func awaitStarts(s *harness.Machine) {
	s.T.Helper()
	for _, name := range shutdownPods {
		awaitRecord(s, name+"-start")
	}
}

// shutdownPod returns a pod of the machine that records what it does.
func shutdownPod(name, spec, script, container string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 900
  %s
  volumes: [{name: v, hostPath: {path: /records, type: DirectoryOrCreate}}]
  containers:
    - {name: main, image: %s, command: [sh, -c, %q], volumeMounts: [{name: v, mountPath: /v}]%s}
`, name, spec, testbed.BusyboxImage,
		"note() { read up rest < /proc/uptime; echo $1 $up >> /v/records; }; note "+name+"-start; echo "+name+" was here; "+
			script, container)
}

// shortPeriod is the time of the first group at a shutdown. It is long enough for its pods to
// terminate on a busy machine.
const shortPeriod = "30s"

// shutdownPeriods returns the settings with the time of the first group of pods, which it uses since
// the pod stubborn does not exit.
func shutdownPeriods(first string) map[string]string {
	return map[string]string{"etc/systemd/system/podstead.service.d/shutdown.conf": `[Unit]
Wants=left.service
[Service]
ExecStart=
ExecStart=/usr/local/bin/podstead run --shutdown-grace-period-by-pod-priority 0=` + first + `,1000=300s,2000000000=60s
`}
}

// shutdownPods are the pods of shutdownFiles.
var shutdownPods = []string{"low", "mid", "client", "crit", "stubborn"}

var shutdownFiles = map[string]string{
	"etc/pods/low.yaml": shutdownPod("low", "priority: 0",
		"trap 'note low-term; sleep 1; note low-gone; exit 0' TERM; sleep 100000 & wait", ""),
	// mid ends after client, which depends on it: its group has time for both.
	"etc/pods/client.yaml": strings.Replace(shutdownPod("client", "priority: 1500",
		"trap 'note client-term; sleep 1; note client-gone; exit 0' TERM; sleep 100000 & wait", ""),
		"{name: client}", "{name: client, annotations: {podstead.io/depends-on: mid}}", 1),
	"etc/pods/mid.yaml": strings.Replace(
		shutdownPod("mid", "priority: 1500", "trap 'note mid-term; exit 0' TERM; sleep 100000 & wait",
			", lifecycle: {preStop: {exec: {command: [sh, -c, \"read up rest < /proc/uptime; echo mid-hook $up >> /v/records; "+
				"sleep 1\"]}}}"),
		"terminationGracePeriodSeconds: 900", "terminationGracePeriodSeconds: 60", 1),
	"etc/pods/crit.yaml": shutdownPod("crit", "priorityClassName: system-node-critical",
		"trap 'note crit-term; sleep 1; note crit-gone; exit 0' TERM; sleep 100000 & wait", ""),
	"etc/pods/stubborn.yaml": shutdownPod("stubborn", "priority: 10",
		"rm -f /v/release; trap 'note stubborn-term' TERM; until [ -e /v/release ]; do sleep 0.2; done", ""),
	// A process that does not stop would hold up the shutdown for longer than the test waits.
	"etc/systemd/system.conf.d/stop.conf": "[Manager]\nDefaultTimeoutStopSec=1h\n",
	"etc/pods/p.yaml":                     "{apiVersion: v1, kind: PodList, items: []}\n",
	// Stopped after podstead.
	"etc/systemd/system/left.service": `[Unit]
Before=podstead.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=true
ExecStop=sh -c 'echo podstead has ended > /records/left; grep -l containerd-shim /proc/[0-9]*/comm >> /records/left; true'
`,
}

// mustShutDownInOrder checks the records of a machine that is off and was asked to shut down at this
// uptime.
func mustShutDownInOrder(s *harness.Machine, how string, asked float64) {
	s.T.Helper()
	at := map[string]float64{}
	var order []string
	for _, line := range records(s) {
		word, up, _ := strings.Cut(line, " ")
		seconds, err := strconv.ParseFloat(up, 64)
		if _, twice := at[word]; err != nil || twice {
			s.T.Errorf("%s: invalid record %q: %v", how, line, err)
		}
		at[word], order = seconds, append(order, word)
	}
	// The first two get SIGTERM at the same time.
	slices.Sort(order[:min(2, len(order))])
	want := []string{"low-term", "stubborn-term", "low-gone", "client-term", "client-gone", "mid-hook", "mid-term",
		"crit-term", "crit-gone"}
	if !slices.Equal(order, want) {
		s.T.Errorf("%s: recorded %v, want %v", how, order, want)
		return
	}
	// The first group had its time, because one container does not exit within its own quarter of
	// an hour, for which the test would not wait. The second group exited early and did not use
	// its five minutes.
	if first := at["client-term"] - asked; first < 30 {
		s.T.Errorf("%s: the first group had %.1f s at most, want %s", how, first, shortPeriod)
	}
	if second := at["crit-term"] - at["client-term"]; second < 2 || second > 250 {
		s.T.Errorf("%s: the second group took %.1f s, want little more than 2", how, second)
	}
	left, err := os.ReadFile(filepath.Join(s.Root, "records/left"))
	if err != nil || string(left) != "podstead has ended\n" {
		s.T.Errorf("%s: processes left after podstead exited: %q, %v", how, left, err)
	}
}

func records(s *harness.Machine) []string {
	text, err := os.ReadFile(filepath.Join(s.Root, "records/records"))
	if err != nil && !os.IsNotExist(err) {
		s.T.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

func recordedWords(s *harness.Machine) (words []string) {
	for _, line := range records(s) {
		word, _, _ := strings.Cut(line, " ")
		words = append(words, word)
	}
	return words
}

// mustHaveRecorded checks the recorded words, in any order, and clears the records.
func mustHaveRecorded(s *harness.Machine, want ...string) {
	s.T.Helper()
	got := recordedWords(s)
	if slices.Sort(got); !slices.Equal(got, want) {
		s.T.Errorf("recorded %v, want %v", got, want)
	}
	clearRecords(s)
}

func awaitRecord(s *harness.Machine, word string) {
	s.T.Helper()
	harness.Await(s.T, "the word "+word+" is recorded", func() error {
		if got := recordedWords(s); !slices.Contains(got, word) {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
}

func clearRecords(s *harness.Machine) {
	s.T.Helper()
	for _, name := range []string{"records/records", "records/left"} {
		if err := os.Remove(filepath.Join(s.Root, name)); err != nil && !os.IsNotExist(err) {
			s.T.Fatal(err)
		}
	}
}

// awaitAll waits until pods run with this number of restarts.
func awaitAll(s *harness.Machine, restarts int32, names ...string) {
	s.T.Helper()
	for _, name := range names {
		harness.Await(s.T, fmt.Sprintf("%s runs with %d restarts", name, restarts), func() error {
			p := podNamed(s, name)
			if st := p.Status; st.Phase != v1.PodRunning || len(st.ContainerStatuses) != 1 || !st.ContainerStatuses[0].Ready ||
				st.ContainerStatuses[0].RestartCount != restarts {
				return fmt.Errorf("%+v", st)
			}
			return nil
		})
	}
}

// podNamed returns a pod as the machine's daemon reports it, or an empty one.
func podNamed(s *harness.Machine, name string) v1.Pod {
	s.T.Helper()
	var pods v1.PodList
	getJSON(s, "/pods", &pods)
	for i := range pods.Items {
		if pods.Items[i].Name == name+"-sd" {
			return pods.Items[i]
		}
	}
	return v1.Pod{}
}

// getJSON sends a request to the machine's daemon. Without a response the value stays empty.
func getJSON(s *harness.Machine, path string, to any) {
	s.T.Helper()
	socket := fmt.Sprintf("/proc/%d/root/run/podstead/podstead.sock", s.PID)
	client := http.Client{Timeout: 3 * time.Minute,
		Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", socket)
			}}}
	r, err := client.Get("http://podstead" + path)
	if err != nil {
		return
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(to); err != nil {
		s.T.Errorf("%s: %v", path, err)
	}
}
