package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// monitoringTool returns the path of a program of Debian's Prometheus.
func monitoringTool(name string) string {
	return filepath.Join(testbed.Cache(), "prometheus-root-debian/usr/bin", name)
}

// runMonitoringTool runs promtool.
func runMonitoringTool(t *testing.T, input []byte, args ...string) {
	t.Helper()
	cmd := exec.Command(monitoringTool("promtool"), args...)
	cmd.Stdin = bytes.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// prometheusServer is a real Prometheus.
type prometheusServer struct {
	t       *testing.T
	address string
}

// get decodes the data of a response.
func (p *prometheusServer) get(path string, query url.Values, data any) error {
	resp, err := http.Get("http://" + p.address + "/api/v1/" + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var response struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 10<<20)).Decode(&response); err != nil {
		return err
	}
	if response.Status != "success" {
		return errors.New(response.Error)
	}
	return json.Unmarshal(response.Data, data)
}

// startPrometheus starts a Prometheus with the example's rules, which scrapes the read-only
// port of a daemon.
func startPrometheus(t *testing.T, examples, target string) *prometheusServer {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(examples, "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(config)
	for _, change := range [][2]string{
		{"node-1.example:10250", target}, {"scheme: https", "scheme: http"}, {": 30s", ": 5s"},
		{"- podstead.rules.yml", "- " + filepath.Join(examples, "podstead.rules.yml")},
	} {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("prometheus.yml does not contain %q", change[0])
		}
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	text = regexp.MustCompile(`(?m)^    (authorization:\n.*|tls_config:\n(      #.*\n)?.*)\n`).ReplaceAllString(text, "")
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &prometheusServer{t: t, address: harness.FreeAddress()}
	cmd := exec.Command(monitoringTool("prometheus"), "--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; run: make setup", err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus: %s", &log)
		}
	})
	return p
}

// ruleState is a rule as Prometheus reports it.
type ruleState struct {
	Name, Query, Health, State string
	LastError                  string
	LastEvaluation             time.Time
}

func (p *prometheusServer) rules() (map[string]ruleState, error) {
	var data struct {
		Groups []struct{ Rules []ruleState }
	}
	if err := p.get("rules", nil, &data); err != nil {
		return nil, err
	}
	found := map[string]ruleState{}
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			if rule.Health != "ok" {
				return nil, fmt.Errorf("rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
			found[rule.Name] = rule
		}
	}
	return found, nil
}

// metricNames matches the names of podstead's metrics in a query.
var metricNames = regexp.MustCompile(
	`\b(podstead|kubelet|container|machine|process|node|pod|prober)_[a-z0-9_]+\b|\bup\b`)

// labelNames are labels that look like metrics.
var labelNames = []string{"operation_type", "eviction_signal", "container_type"}

// documentedMetrics returns the metrics that metrics.md names.
func documentedMetrics(t *testing.T) map[string]bool {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(testbed.SourceRoot(), "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, match := range regexp.MustCompile("`([a-z_{},]+)`").FindAllStringSubmatch(string(data), -1) {
		for _, name := range expandBraces(match[1]) {
			names[name] = true
		}
	}
	return names
}

// expandBraces returns a{b,c} as ab and ac.
func expandBraces(text string) []string {
	before, rest, ok := strings.Cut(text, "{")
	if !ok {
		return []string{text}
	}
	inner, after, _ := strings.Cut(rest, "}")
	var all []string
	for choice := range strings.SplitSeq(inner, ",") {
		for _, tail := range expandBraces(after) {
			all = append(all, before+choice+tail)
		}
	}
	return all
}

// dashboardQueries returns the queries of the dashboard, for all nodes.
func dashboardQueries(t *testing.T, file string) (queries []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		if len(panel.Targets) == 0 || panel.Title == "" {
			t.Errorf("panel %q has no query", panel.Title)
		}
		for _, target := range panel.Targets {
			queries = append(queries, strings.ReplaceAll(target.Expr, "$instance", ".*"))
		}
	}
	return queries
}

// A real Prometheus with the example's configuration scrapes a daemon, and evaluates the
// example's rules and the queries of the dashboard, which use only metrics that exist.
func TestMonitoringExamples(t *testing.T) {
	t.Parallel()
	examples := filepath.Join(testbed.SourceRoot(), "examples", "monitoring")
	runMonitoringTool(t, nil, "check", "rules", filepath.Join(examples, "podstead.rules.yml"))
	runMonitoringTool(t, nil, "check", "config", "--syntax-only", filepath.Join(examples, "prometheus.yml"))
	runMonitoringTool(t, nil, "test", "rules", filepath.Join(examples, "podstead.test.yml"))

	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	address := harness.FreeAddress()
	_, port, _ := net.SplitHostPort(address)
	n.Args = append(n.Args, "--read-only-port", port, "--address", "127.0.0.1")
	limits := "      resources: {limits: {memory: 64Mi, cpu: 100m}}\n"
	n.WriteManifest("web.yaml", harness.SleepPod("web", "one")+limits)
	n.WriteManifest("broken.yaml", "kind: Pot\n")
	n.MustStart()
	n.AwaitReady("web")
	for _, path := range []string{"/metrics", "/metrics/cadvisor", "/metrics/resource", "/metrics/probes"} {
		body, err := n.Get(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		// promtool objects to some of the kubelet's names, as the linter of TestMetrics does.
		cmd := exec.Command(monitoringTool("promtool"), "check", "metrics")
		cmd.Stdin = bytes.NewReader(body)
		out, _ := cmd.CombinedOutput()
		for line := range strings.Lines(string(out)) {
			name, _, _ := strings.Cut(line, " ")
			if !slices.Contains(harness.NamesOfTheKubelet, name) {
				t.Errorf("promtool check metrics of %s: %s", path, line)
			}
		}
	}

	p := startPrometheus(t, examples, address)
	var rules map[string]ruleState
	n.Await("the alert about the broken manifest is pending", func() (err error) {
		if rules, err = p.rules(); err != nil {
			return err
		}
		if state := rules["PodsteadManifestFaults"].State; state != "pending" {
			return fmt.Errorf("it is %q", state)
		}
		return nil
	})
	p.checkMonitoringPage(n)
	// The shares of throttled periods need two scrapes.
	queries := dashboardQueries(t, filepath.Join(examples, "grafana-dashboard.json"))
	for _, query := range queries {
		n.Await("the dashboard's query "+query+" is evaluated", func() error {
			var data struct{ Result []any }
			if err := p.get("query", url.Values{"query": {query}}, &data); err != nil {
				return err
			}
			switch {
			case len(data.Result) > 0, strings.Contains(query, "> 0"), strings.Contains(query, "kubelet_evictions"),
				strings.Contains(query, "podstead_disrupted"),
				strings.Contains(query, "errors_total"), strings.Contains(query, "throttled"):
				return nil // these have a value only if something is wrong
			}
			return errors.New("it has no value")
		})
	}
	for _, rule := range rules {
		queries = append(queries, rule.Query)
	}
	if len(rules) < 15 {
		t.Errorf("only %d rules: %v", len(rules), slices.Sorted(maps.Keys(rules)))
	}
	var live []string
	if err := p.get("label/__name__/values", nil, &live); err != nil {
		t.Fatal(err)
	}
	documented, found := documentedMetrics(t), 0
	for _, query := range queries {
		for _, name := range metricNames.FindAllString(query, -1) {
			base := strings.TrimSuffix(name, "_bucket")
			if found++; !slices.Contains(labelNames, name) && !slices.Contains(live, name) && !documented[base] {
				t.Errorf("there is no metric %s, in %s", name, query)
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d metrics found", found)
	}
	var targets struct {
		ActiveTargets []struct{ Health, LastError, ScrapeURL string }
	}
	n.Await("both targets are up", func() error {
		if err := p.get("targets", nil, &targets); err != nil || len(targets.ActiveTargets) != 2 {
			return fmt.Errorf("targets: %+v, %v", targets, err)
		}
		for _, target := range targets.ActiveTargets {
			if target.Health != "up" {
				return fmt.Errorf("%s is %s: %s", target.ScrapeURL, target.Health, target.LastError)
			}
		}
		return nil
	})
}
