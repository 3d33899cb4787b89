package observability

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podstead/podstead/internal/tracing/tracingtest"
	"github.com/podstead/podstead/test/e2e/harness"
)

// With tracing configured, a collector receives each sync of a pod with its calls of the
// runtime below it. While the collector is away, pods are not affected, and the log has one
// line.
func TestTraces(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		address := harness.FreeAddress()
		file := filepath.Join(t.TempDir(), "config.yaml")
		config := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ntracing: {endpoint: '" + address +
			"', samplingRatePerMillion: 1000000}\n"
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		n.Args = append(n.Args, "--config", file)
		n.MustStart()
		n.WriteManifest("first.yaml", harness.SleepPod("first", "one"))
		n.AwaitReady("first")
		failures := func() int {
			log, err := os.ReadFile(n.Log())
			if err != nil {
				t.Fatal(err)
			}
			return bytes.Count(log, []byte("Failed to export traces"))
		}
		n.Await("the log reports that the collector is away", func() error {
			if failures() == 0 {
				return errors.New("no line")
			}
			return nil
		})

		collector, _ := tracingtest.Listen(t, address)
		n.WriteManifest("p.yaml", strings.Replace(harness.SleepPod("p", "one"), "      command:",
			"      imagePullPolicy: Always\n      command:", 1))
		n.AwaitReady("p")
		n.RemoveManifest("p.yaml")
		n.AwaitGone("p")
		want := map[string]string{
			"runtime.v1.ImageService/PullImage": "syncPod", "runtime.v1.RuntimeService/RunPodSandbox": "syncPod",
			"runtime.v1.RuntimeService/CreateContainer": "syncPod",
			"runtime.v1.RuntimeService/StartContainer":  "syncPod",
			"runtime.v1.RuntimeService/StopContainer":   "syncTerminatingPod",
			"runtime.v1.RuntimeService/StopPodSandbox":  "syncTerminatingPod",
		}
		n.Await("the collector has the spans of the pod", func() error {
			got, err := callsByParent(collector, n.PodName("p"))
			for call, parent := range want {
				if err == nil && got[call] != parent {
					err = fmt.Errorf("%s is below %q, want %s, in %v", call, got[call], parent, slices.Sorted(maps.Keys(got)))
				}
			}
			return err
		})
		// An export may be late on a busy machine: another line comes after that of the recovery.
		log, err := os.ReadFile(n.Log())
		if err != nil {
			t.Fatal(err)
		}
		if found, again := failures(), bytes.Count(log, []byte("Exporting traces again")); found < 1 || found > 1+again {
			t.Errorf("the log has %d lines about the collector, and %d that it is back", found, again)
		}
	})
}

// callsByParent returns the names of the runtime's calls for a pod with the names of the spans
// above them. The error is for spans that do not fit together.
func callsByParent(collector *tracingtest.Collector, pod string) (map[string]string, error) {
	byID := map[string]tracingtest.Span{}
	spans, err := collector.Spans()
	if err != nil {
		return nil, err
	}
	for _, s := range spans {
		byID[s.ID] = s
	}
	calls := map[string]string{}
	for _, s := range spans {
		parent, ok := byID[s.Parent]
		if !ok {
			continue // a sync, or one whose sync was exported before the collector was there
		}
		if parent.TraceID != s.TraceID || s.End < s.Start {
			return nil, fmt.Errorf("%s and %s: other traces, or a negative duration", parent.Name, s.Name)
		}
		if parent.Attributes["k8s.pod.name"] == pod {
			calls[s.Name] = parent.Name
		}
	}
	return calls, nil
}
