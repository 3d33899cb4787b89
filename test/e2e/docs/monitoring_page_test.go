package docs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// promtoolBlock is the block of docs/monitor.md with queries and what promtool prints for them.
var promtoolBlock = regexp.MustCompile("(?s)```console\n(.*?)```")

const promtoolCommand = "$ promtool query instant http://localhost:9090 "

var (
	// sampleTime is the time at which a query was evaluated.
	sampleTime = regexp.MustCompile(` @\[[0-9.]+\]`)
	// sampleValue is the value of a series.
	sampleValue   = regexp.MustCompile(`(?m) => \S+$`)
	instanceLabel = regexp.MustCompile(`instance="[^"]*"`)
)

// checkMonitoringPage runs the queries of docs/monitor.md with promtool, and compares the series
// with those of the page. Values differ.
func (p *prometheusServer) checkMonitoringPage(n *harness.Node) {
	p.t.Helper()
	file := filepath.Join(testbed.SourceRoot(), "docs", "monitor.md")
	page, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatal(err)
	}
	block := promtoolBlock.FindSubmatch(page)
	if block == nil {
		p.t.Fatalf("%s has no block of queries", file)
	}
	var queries []string
	for line := range strings.Lines(string(block[1])) {
		if query, ok := strings.CutPrefix(strings.TrimSpace(line), promtoolCommand); ok {
			queries = append(queries, query)
		}
	}
	if len(queries) < 5 {
		p.t.Fatalf("%s has only the queries %q", file, queries)
	}
	var printed string
	n.Await("Prometheus prints the series of docs/monitor.md", func() error {
		printed = ""
		for _, query := range queries {
			out, err := p.promtool(query, n.Name)
			if err != nil {
				return err
			}
			printed += promtoolCommand + query + "\n" + out
		}
		if got, want := sampleValue.ReplaceAllString(printed, ""),
			sampleValue.ReplaceAllString(string(block[1]), ""); got != want && !*updateScreenshot {
			return fmt.Errorf("it prints:\n%s\nthe page has:\n%s", got, want)
		}
		return nil
	})
	if *updateScreenshot {
		page = promtoolBlock.ReplaceAllLiteral(page, []byte("```console\n"+printed+"```"))
		if err := os.WriteFile(file, page, 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}

// promtool evaluates a query and returns a line for each series, sorted, with the name of a node
// instead of that of the test's.
func (p *prometheusServer) promtool(query, node string) (string, error) {
	out, err := exec.Command(monitoringTool("promtool"), "query", "instant", "http://"+p.address,
		strings.Trim(query, "'")).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", query, err, out)
	}
	text := sampleTime.ReplaceAllString(strings.TrimSpace(string(out)), "")
	text = instanceLabel.ReplaceAllString(strings.ReplaceAll(text, "-"+node+`"`, `-node-1"`),
		`instance="node-1.example:10250"`)
	if text == "" {
		return "", errors.New(query + " has no value")
	}
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n", nil
}
