package podspec

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podstead/podstead/manifest/validation"
)

var update = flag.Bool("update", false, "write docs/pod-spec.md anew")

const page = "../../docs/pod-spec.md"

// TestPageIsUpToDate keeps docs/pod-spec.md what the table says.
func TestPageIsUpToDate(t *testing.T) {
	want := render(validation.Fields())
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the verdicts say; write it anew with: go test ./test/podspec -update", page)
	}
}

// TestEveryProofIsATest fails when a field is said to be honoured by an
// end-to-end test that is not there.
func TestEveryProofIsATest(t *testing.T) {
	files, err := filepath.Glob("../e2e/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no end-to-end tests: %v", err)
	}
	tests := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
	}
	for _, f := range validation.Fields() {
		if f.Kind == validation.FieldSupported && !tests[f.Proof] {
			t.Errorf("%s: its proof %q is no test in test/e2e", f.Path, f.Proof)
		}
	}
}

// TestEveryFieldHasText fails when a field has no verdict, or one that says
// nothing to a reader.
func TestEveryFieldHasText(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range validation.Fields() {
		if f.Kind == "" || f.Text == "" && f.Proof == "" {
			t.Errorf("%s: verdict %q says nothing", f.Path, f.Kind)
		}
		if seen[f.Path] {
			t.Errorf("%s is there twice", f.Path)
		}
		seen[f.Path] = true
	}
	if len(seen) < 500 {
		t.Errorf("%d leaves only: the walk does not reach down", len(seen))
	}
}

// group is rows that share a verdict, shown as one.
type group struct {
	validation.Field
	leaves int
}

func groups(fields []validation.Field) []group {
	var all []group
	for _, f := range fields {
		if n := len(all); n > 0 && all[n-1].Subtree == f.Subtree && f.Kind != validation.FieldSupported {
			all[n-1].leaves++
			continue
		}
		all = append(all, group{f, 1})
	}
	return all
}

func render(fields []validation.Field) string {
	var b strings.Builder
	count := map[validation.FieldKind]int{}
	for _, f := range fields {
		count[f.Kind]++
	}
	served := count[validation.FieldSupported] + count[validation.FieldNotYet]
	fmt.Fprintf(&b, `# Every field of a Pod

Made from the table in `+"`manifest/validation/unsupported_table.go`"+`; do not edit.

Of %d leaves, %d are **honoured** (proven by the end-to-end test named, which
looks from inside the container or at the kernel), %d are **inert** (accepted;
nothing about the pod depends on them, for the reason given), %d are **refused**
with the error shown, and %d are refused **for now**. Of the leaves that a single
node can serve, %.1f %% are honoured. A refused field that stands above others
has one row, with their number.

| field | verdict | proof, reason or error |
|---|---|---|
`, len(fields), count[validation.FieldSupported], count[validation.FieldIgnored], count[validation.FieldUnsupported], count[validation.FieldNotYet],
		100*float64(count[validation.FieldSupported])/float64(served))
	for _, g := range groups(fields) {
		name, text := g.Path, g.Text
		if g.leaves > 1 {
			name = fmt.Sprintf("%s` and below (%d)`", g.Subtree, g.leaves)
			name = strings.TrimSuffix(name, "`")
		} else {
			name += "`"
		}
		if g.Kind == validation.FieldSupported {
			text = "`" + g.Proof + "`"
		}
		if len(g.Accepted) > 0 && g.Kind != validation.FieldSupported {
			text += "; `" + strings.Join(g.Accepted, "`, `") + "` is taken"
		}
		fmt.Fprintf(&b, "| `%s | %s | %s |\n", name, g.Kind, strings.ReplaceAll(text, "|", "\\|"))
	}
	return b.String()
}
