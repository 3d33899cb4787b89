package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// foreignFlags are flags of other programs in the documentation.
var foreignFlags = []string{"enable-aggregator-routing", "as", "as-group", "kubelet-client-certificate",
	"kubelet-insecure-tls", "use-signing-config", "output-signature",
	"privileged", "memory", "cpus", "pid", "ipc"} // the last five are PodmanArgs of Quadlet units

// docPages returns the pages for users by name.
func docPages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	pages := map[string]string{}
	for _, file := range append(files, "../../README.md", "../../SECURITY.md") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages[filepath.Base(file)] = string(data)
	}
	return pages
}

// Each flag that a page names in code exists.
func TestDocumentedFlagsExist(t *testing.T) {
	known := map[string]bool{"help": true, "version": true}
	var collect func(*cobra.Command)
	collect = func(c *cobra.Command) {
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		}
		for _, sub := range c.Commands() {
			collect(sub)
		}
	}
	collect(command())
	named := regexp.MustCompile("`--([a-z][a-z0-9-]*)")
	found := 0
	for page, text := range docPages(t) {
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			found++
			if name := strings.TrimSuffix(match[1], "-"); !known[name] && !slices.Contains(foreignFlags, name) {
				t.Errorf("%s: podstead has no flag --%s", page, name)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d flags found", found)
	}
}

// Each metric that metrics.md names is in the code.
func TestDocumentedMetricsExist(t *testing.T) {
	var code strings.Builder
	err := filepath.WalkDir("../../httpapi", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		code.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for page, text := range docPages(t) {
		for _, match := range regexp.MustCompile("`((?:podstead|kubelet)_[a-z0-9_]+[a-z0-9])[`{]").FindAllStringSubmatch(text,
			-1) {
			found++
			name := match[1]
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				name = strings.TrimSuffix(name, suffix)
			}
			if !strings.Contains(code.String(), name) {
				t.Errorf("%s: there is no metric %s", page, match[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d metrics found", found)
	}
}

// seriesLabels are labels that look like names of metrics.
var seriesLabels = []string{"container_state", "container_type", "machine_id", "pod_uid"}

// Each metric of the code is in metrics.md. A name that ends with an underscore is the beginning of several.
func TestMetricsAreDocumented(t *testing.T) {
	var documented []string
	for _, match := range regexp.MustCompile("`([a-z0-9_{},]+)`").FindAllStringSubmatch(docPages(t)["metrics.md"], -1) {
		documented = append(documented, expandBraces(match[1])...)
	}
	files, err := filepath.Glob("../../httpapi/metrics/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(
			`"((?:podstead|kubelet|container|machine|node|pod|prober|resource)_[a-z0-9_]+)"`).FindAllStringSubmatch(string(code),
			-1) {
			name := match[1]
			if slices.Contains(seriesLabels, name) {
				continue
			}
			found++
			if !slices.ContainsFunc(documented, func(d string) bool {
				return d == name || strings.HasSuffix(name, "_") && strings.HasPrefix(d, name)
			}) {
				t.Errorf("metrics.md does not document %s (%s)", name, filepath.Base(file))
			}
		}
	}
	if found < 80 {
		t.Errorf("only %d metrics found", found)
	}
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

// inspectCode calls visit, as ast.Inspect does, for the product's code in directories of the repository. The fake runtime
// is no part of the product.
func inspectCode(t *testing.T, visit func(ast.Node) bool, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir("../../"+dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && path == "../../cri/critest":
				return filepath.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err == nil {
				ast.Inspect(file, visit)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
