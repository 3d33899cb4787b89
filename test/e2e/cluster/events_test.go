package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// writeJournal gives the node the events of a past half hour, as many for each pod as a recorder keeps.
func writeJournal(n *harness.Node, events int) {
	n.T.Helper()
	const each = 95
	var lines []byte
	for i := range events {
		name := fmt.Sprintf("past-%d", i/each)
		at := metav1.NewTime(time.Now().Add(-30*time.Minute + time.Duration(i)*time.Second)).Rfc3339Copy()
		line, err := json.Marshal(&v1.Event{
			TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s.%x", name, at.UnixNano()+int64(i)),
				CreationTimestamp: at},
			InvolvedObject: v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: "default", Name: name,
				UID: types.UID(name)},
			Type: v1.EventTypeNormal, Reason: "Past", Message: fmt.Sprintf("event %d", i), Count: 1,
			FirstTimestamp: at, LastTimestamp: at, Source: v1.EventSource{Component: "podstead", Host: n.Name},
			ReportingController: "podstead", ReportingInstance: n.Name,
		})
		if err != nil {
			n.T.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	path := filepath.Join(n.Root, "events", "journal.jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		n.T.Fatal(err)
	}
	if err := os.WriteFile(path, lines, 0o600); err != nil {
		n.T.Fatal(err)
	}
}

// pastEvents returns how many of the past events the API server has, with the sum of their counts.
func pastEvents(a *harness.Admin) (events, counts int, err error) {
	out, err := a.Kubectl("get", "events", "-o", `jsonpath={range .items[?(@.reason=="Past")]}{.count}{"\n"}{end}`)
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(out) {
		count, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return 0, 0, fmt.Errorf("%q: %w", out, err)
		}
		events, counts = events+1, counts+count
	}
	return events, counts, nil
}

// eventWrites returns how many requests the API server has got that write events.
func eventWrites(t *testing.T, a *harness.Admin) (sum int) {
	t.Helper()
	text, err := a.Kubectl("get", "--raw", "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "apiserver_request_total{") || !strings.Contains(line, `resource="events"`) ||
			!strings.Contains(line, `verb="POST"`) && !strings.Contains(line, `verb="PATCH"`) {
			continue
		}
		fields := strings.Fields(line)
		n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += int(n)
	}
	return sum
}

// A node with 900 events of the last hour restarts: the API server gets the events of a new pod within seconds, and
// none of the others again. So it does if the daemon is killed.
func TestEventsAfterRestart(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	_, a, kubeconfig := harness.NewCluster(t.Context(), n)
	n.Args = append(n.Args, "--kubeconfig", kubeconfig)
	a.Must("create", "serviceaccount", "default")
	const past = 900
	writeJournal(n, past)
	n.MustStart()
	n.Await("the API server has all events", func() error {
		events, _, err := pastEvents(a)
		if err == nil && events != past {
			err = fmt.Errorf("it has %d", events)
		}
		return err
	})
	for round, restart := range []func(){n.Restart, func() { n.Kill(); n.MustStart() }} {
		before := eventWrites(t, a)
		restart()
		name := fmt.Sprintf("new-%d", round)
		a.Create(boundPod(n, name, "sleep 100000", ""))
		n.AwaitRunning(name)
		started := time.Now()
		n.Await("the API server has the event of the new pod", func() error {
			out, err := a.Kubectl("get", "events", "--field-selector", "reason=Started,involvedObject.name="+n.PodName(name))
			if err == nil && !strings.Contains(out, "Started") {
				err = fmt.Errorf("%s", out)
			}
			return err
		})
		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("round %d: the event came after %v", round, took)
		}
		n.Await("what was sent is on the disk", func() error {
			text, err := os.ReadFile(filepath.Join(n.Root, "cluster-events.json"))
			if err == nil && !strings.Contains(string(text), n.PodName(name)) {
				err = fmt.Errorf("%d bytes without %s", len(text), name)
			}
			return err
		})
		if sent := eventWrites(t, a) - before; sent > 60 {
			t.Errorf("round %d: %d requests wrote events", round, sent)
		}
		if events, counts, err := pastEvents(a); events != past || counts != past || err != nil {
			t.Errorf("round %d: %d events that occurred %d times: %v", round, events, counts, err)
		}
	}
}
