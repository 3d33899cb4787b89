package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// maxFields is how many fields a struct of the product may have without a reason.
	maxFields = 15
	// maxFiles is how many files, without tests, a package of the product may have without a reason.
	maxFiles = 25
)

// largeStructs are the structs with more fields, and why they are not several.
var largeStructs = map[string]string{
	"cluster.Adapter": "one field per task that Run starts, and what they share",
	"config.Options":  "one field per group of flags",
	"config.Remote":   "one field per flag of the ports for remote clients",
	"cri.Container": "one flat record of what lists, status calls and labels report of a container; " +
		"readers do not care which",
	"cri.SyncRequest":                  "all that one sync needs to know of a pod",
	"cri/critest.Fake":                 "one field per part of the state of a runtime",
	"daemon.daemon":                    "one field per result of a phase of the assembly",
	"daemon/preflight.Settings":        "one field per group of checks",
	"httpapi.Sources":                  "one field per dependency of the table of routes",
	"httpapi/kubeapi.resource":         "one row of the table of resources, mostly constants",
	"httpapi/metrics.Counters":         "one field per metric",
	"httpapi/metrics.Sources":          "one field per source of metrics",
	"internal/csivolume.Volume":        "what the API of drivers has for a volume",
	"internal/projectquota.diskQuota":  "a struct of the kernel",
	"manifest.fileUnit":                "one field per fact that the next scan needs of a file",
	"supervisor.podSyncer":             "one field per concern of the steps of a sync",
	"supervisor/rollout.storedRollout": "the form of a file",
	"supervisor/status.Input":          "everything that one pure function reads",
	"supervisor/status.Record":         "the form of a file",
}

// largePackages are the packages with more files, and why they are not several.
var largePackages = map[string]string{
	"cli":     "one file per command",
	"cluster": "one file per task of the adapter, all over one connection",
	"config":  "one file per group of settings",
	"cri": "one road from the plan to the calls: one file per part of a plan, of a config and of the " +
		"client, which share what was observed",
	"daemon":              "one file per room that it wires",
	"httpapi":             "one file per resource of the table of routes",
	"httpapi/kubeapi":     "one file per verb and kind of answer of one API",
	"manifest":            "one file per step from bytes to the merged set of pods, for each source",
	"manifest/validation": "one file per part of a pod's spec",
	"supervisor":          "one file per step and concern of a sync, over the state of one loop",
	"supervisor/volume":   "one file per type of volume",
}

// A large struct or package is several things, or its row gives the reason. Rows that are no longer needed go, so that
// what has shrunk does not grow again unnoticed.
func TestLargeStructsAndPackagesGiveTheReason(t *testing.T) {
	structs, packages := map[string]int{}, map[string]int{}
	for _, p := range product(t) {
		directory, ok := directoryOf(p.ImportPath)
		if !ok || below(directory, "test") {
			continue
		}
		entries, err := os.ReadDir(p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if strings.HasSuffix(entry.Name(), ".go") && !strings.HasSuffix(entry.Name(), "_test.go") {
				packages[directory]++
				countFields(t, filepath.Join(p.Dir, entry.Name()), directory, structs)
			}
		}
	}
	if len(structs) < 100 || len(packages) < 10 {
		t.Fatalf("found only %d structs in %d packages", len(structs), len(packages))
	}
	mustHaveReasons(t, structs, maxFields, "fields", largeStructs)
	mustHaveReasons(t, packages, maxFiles, "files", largePackages)
}

// countFields adds the number of fields of each struct type that a file declares, by directory and name.
func countFields(t *testing.T, path, directory string, structs map[string]int) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if ts, ok := n.(*ast.TypeSpec); ok {
			if st, ok := ts.Type.(*ast.StructType); ok {
				structs[directory+"."+ts.Name.Name] = st.Fields.NumFields()
			}
		}
		return true
	})
}

// mustHaveReasons fails the test unless exactly those with more than the limit have a reason.
func mustHaveReasons(t *testing.T, counts map[string]int, limit int, of string, reasons map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > limit && reasons[name] == "" {
			t.Errorf("%s has %d %s, more than %d: split it, or give the reason in sizes_test.go", name, counts[name], of, limit)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		if counts[name] <= limit {
			t.Errorf("%s has only %d %s: remove its row from sizes_test.go", name, counts[name], of)
		}
	}
}
