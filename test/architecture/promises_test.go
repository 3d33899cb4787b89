package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	// testFunction finds the tests of a file.
	testFunction = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)
	// nodeTest finds the tests in the table of TestNode.
	nodeTest = regexp.MustCompile(`(?m)^\t\{"(\w+)", test\w+\},$`)
	// namedTest finds a test that a page names in a code span.
	namedTest = regexp.MustCompile("`(Test[A-Z]\\w*(?:/\\w+)?)`")
)

// testsIn returns the names of the tests in the directories of the tree that the pattern matches, those in the
// table of TestNode with its name before theirs.
func testsIn(t *testing.T, directories string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", directories, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s: %v", directories, err)
	}
	found := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range testFunction.FindAllStringSubmatch(string(text), -1) {
			found[match[1]] = true
		}
		if filepath.Base(file) == "node_test.go" {
			for _, match := range nodeTest.FindAllStringSubmatch(string(text), -1) {
				found["TestNode/"+match[1]] = true
			}
		}
	}
	return found
}

// The page docs/tested.md, which reports which test holds which promise about machines and attacks, names every test of
// test/machine, and no test that does not exist.
func TestPromisesNameTests(t *testing.T) {
	text, err := os.ReadFile("../../docs/tested.md")
	if err != nil {
		t.Fatal(err)
	}
	section := string(text)
	onMachine, others := testsIn(t, "test/machine"), testsIn(t, "test/e2e/*")
	for _, directory := range []string{"supervisor", "cluster", "cri", "cri/archive", "httpapi", "httpapi/access",
		"httpapi/streaming", "internal/spdy", "manifest", "node/nameserver"} {
		for name := range testsIn(t, directory) {
			others[name] = true
		}
	}
	if !onMachine["TestLife"] || !onMachine["TestNode/Boot"] {
		t.Fatalf("the tests of test/machine are not found: %v", onMachine)
	}
	named := map[string]bool{}
	for _, match := range namedTest.FindAllStringSubmatch(section, -1) {
		named[match[1]] = true
		if !onMachine[match[1]] && !others[match[1]] {
			t.Errorf("docs/tested.md names %s, which does not exist", match[1])
		}
	}
	// TestMachine examines the machine itself, and TestNode is the table of others.
	named["TestMachine"], named["TestNode"] = true, true
	for name := range onMachine {
		if !named[name] {
			t.Errorf("docs/tested.md names no promise of %s", name)
		}
	}
}
