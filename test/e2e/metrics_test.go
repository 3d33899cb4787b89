package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/podstead/podstead/test/testbed"
)

// scrapePaths are the endpoints that Prometheus reads.
var scrapePaths = []string{"/metrics", "/metrics/resource", "/metrics/probes", "/metrics/cadvisor"}

// namesOfTheKubelet are metrics whose names the linter objects to.
var namesOfTheKubelet = []string{"kubelet_evictions", "kubelet_preemptions", "container_fs_inodes_total", "container_memory_failcnt", "cadvisor_version_info"}

// families reads a scrape as Prometheus does.
func (n *node) families(path string) (map[string]*dto.MetricFamily, error) {
	body, err := n.Get(n.t.Context(), path)
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
		if !slices.Contains(namesOfTheKubelet, p.Metric) {
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
	onEachRuntime(t, func(t *testing.T, n *node) {
		if !n.needs("memory") {
			return
		}
		n.start()
		stop, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			for {
				for _, path := range scrapePaths {
					if _, err := n.families(path); err != nil {
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
			n.writeManifest(file(i), fmt.Sprintf(`apiVersion: v1
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
		first := n.awaitContainer("web0", "main")
		n.checkCgroupSeries("web0")
		sandboxes, err := n.sandboxes("web0")
		if err != nil || len(sandboxes) != 1 {
			t.Fatalf("%v, %v", sandboxes, err)
		}
		pid, err := n.rt.CRI.SandboxPid(t.Context(), sandboxes[0].Id)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		n.awaitOther("web0", first)
		for i := range 3 {
			n.awaitContainer(fmt.Sprintf("web%d", i), "main")
			n.removeManifest(file(i))
		}
		for i := range 3 {
			n.awaitGone(fmt.Sprintf("web%d", i))
		}
		close(stop)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// checkCgroupSeries compares the series of a container's cgroup and processes with the kernel.
func (n *node) checkCgroupSeries(pod string) {
	t := n.t
	t.Helper()
	who := []string{`container="main"`, `pod="` + n.PodName(pod) + `"`}
	var s series
	n.await("a socket of the container is counted", func() error {
		sockets := false
		s = n.series("/metrics/cadvisor")
		for key, value := range s {
			if strings.HasPrefix(key, "container_sockets{") && strings.Contains(key, who[0]) && strings.Contains(key, who[1]) && value >= 1 {
				sockets = true
			}
		}
		if !sockets {
			return errors.New("none yet")
		}
		// The shell may not have started both yet. A probe may run.
		processes, files := s.value(t, "container_processes", who...), s.value(t, "container_file_descriptors", who...)
		if processes < 2 || files < 4 {
			return fmt.Errorf("%v processes with %v file descriptors", processes, files)
		}
		return nil
	})
	for name, want := range map[string]float64{
		"container_spec_cpu_quota": 20_000, "container_spec_cpu_period": 100_000,
		"container_spec_memory_limit_bytes": 20 << 20, "container_oom_events_total": 0, "container_memory_failcnt": 0,
	} {
		if got := s.value(t, name, who...); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := s.value(t, "container_ulimits_soft", append(who, `ulimit="max_open_files"`)...); got < 1024 {
		t.Errorf("the soft limit of open files is %v", got)
	}
	if s.value(t, "container_scrape_error") != 0 || s.value(t, "machine_scrape_error") != 0 {
		t.Error("a part could not be measured")
	}
	system := n.figures("/stats/summary").at("node", "systemContainers")
	for _, name := range []string{"pods", "kubelet", "runtime", "misc"} {
		if got := system.at(name, "cpu", "usageCoreNanoSeconds").number(); got < 0 {
			t.Errorf("system container %s has no CPU usage", name)
		}
	}
}
