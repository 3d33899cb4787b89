package observability

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// scrapePaths are the endpoints that Prometheus reads.
var scrapePaths = []string{"/metrics", "/metrics/resource", "/metrics/probes", "/metrics/cadvisor"}

// families reads a scrape as Prometheus does.
func families(n *harness.Node, path string) (map[string]*dto.MetricFamily, error) {
	body, err := n.Get(n.T.Context(), path)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	problems, err := promlint.New(bytes.NewReader(body)).Lint()
	if err != nil {
		return nil, err
	}
	for _, p := range problems {
		if !slices.Contains(harness.NamesOfTheKubelet, p.Metric) {
			return nil, fmt.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	return families, checkDuplicates(families)
}

// checkDuplicates returns an error for two series with the same name and labels, which
// Prometheus rejects.
func checkDuplicates(families map[string]*dto.MetricFamily) error {
	for name, family := range families {
		seen := map[string]bool{}
		for _, m := range family.Metric {
			labels := fmt.Sprint(m.Label)
			if seen[labels] {
				return fmt.Errorf("%s twice with %s", name, labels)
			}
			seen[labels] = true
		}
	}
	return nil
}

// Scrapes succeed, parse and have no duplicate series at any moment of the life of pods, also
// while a sandbox has no process.
func TestScrapesWhilePodsChange(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if !n.Needs("memory") {
			return
		}
		n.MustStart()
		stop, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			for {
				for _, path := range scrapePaths {
					if _, err := families(n, path); err != nil {
						ended <- fmt.Errorf("%s: %w", path, err)
						return
					}
				}
				select {
				case <-stop:
					ended <- nil
					return
				default:
				}
			}
		}()
		file := func(i int) string { return fmt.Sprintf("web%d.yaml", i) }
		for i := range 3 {
			n.WriteManifest(file(i), fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: web%d}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: %s
      command: [sh, -c, "nc -l -p 7000 & exec sleep 100000"]
      resources: {requests: {cpu: 20m}, limits: {cpu: 200m, memory: 20Mi}}
      readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1}
`, i, testbed.BusyboxImage))
		}
		first := n.AwaitContainer("web0", "main")
		checkCgroupSeries(n, "web0")
		sandboxes, err := n.Sandboxes("web0")
		if err != nil || len(sandboxes) != 1 {
			t.Fatalf("%v, %v", sandboxes, err)
		}
		pid, err := n.Runtime.CRI.SandboxPid(t.Context(), sandboxes[0].Id)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		n.AwaitOther("web0", first)
		for i := range 3 {
			n.AwaitContainer(fmt.Sprintf("web%d", i), "main")
			n.RemoveManifest(file(i))
		}
		for i := range 3 {
			n.AwaitGone(fmt.Sprintf("web%d", i))
		}
		close(stop)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// checkCgroupSeries compares the series of a container's cgroup and processes with the kernel.
func checkCgroupSeries(n *harness.Node, pod string) {
	t := n.T
	t.Helper()
	who := []string{`container="main"`, `pod="` + n.PodName(pod) + `"`}
	var s harness.Series
	n.Await("a socket of the container is counted", func() error {
		sockets := false
		s = n.Series("/metrics/cadvisor")
		for key, value := range s {
			if strings.HasPrefix(key, "container_sockets{") && strings.Contains(key, who[0]) && strings.Contains(key, who[1]) &&
				value >= 1 {
				sockets = true
			}
		}
		if !sockets {
			return errors.New("none yet")
		}
		// The shell may not have started both yet. A probe may run.
		processes, files := s.Value(t, "container_processes", who...), s.Value(t, "container_file_descriptors", who...)
		if processes < 2 || files < 4 {
			return fmt.Errorf("%v processes with %v file descriptors", processes, files)
		}
		return nil
	})
	for name, want := range map[string]float64{
		"container_spec_cpu_quota": 20_000, "container_spec_cpu_period": 100_000,
		"container_spec_memory_limit_bytes": 20 << 20, "container_oom_events_total": 0, "container_memory_failcnt": 0,
	} {
		if got := s.Value(t, name, who...); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := s.Value(t, "container_ulimits_soft", append(who, `ulimit="max_open_files"`)...); got < 1024 {
		t.Errorf("the soft limit of open files is %v", got)
	}
	if s.Value(t, "container_scrape_error") != 0 || s.Value(t, "machine_scrape_error") != 0 {
		t.Error("a part could not be measured")
	}
	system := n.Figures("/stats/summary").At("node", "systemContainers")
	for _, name := range []string{"pods", "kubelet", "runtime", "misc"} {
		if got := system.At(name, "cpu", "usageCoreNanoSeconds").Number(); got < 0 {
			t.Errorf("system container %s has no CPU usage", name)
		}
	}
}
