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

var update = flag.Bool("update", false, "rewrite docs/pod-spec.md")

const page = "../../docs/pod-spec.md"

// TestPageIsUpToDate fails when docs/pod-spec.md differs from the table.
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
		t.Errorf("%s is out of date; regenerate it with: go test ./test/podspec -update", page)
	}
}

// TestEveryProofIsATest fails when the end-to-end test of a supported field does
// not exist.
func TestEveryProofIsATest(t *testing.T) {
	files, err := filepath.Glob("../e2e/*/*_test.go")
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
			t.Errorf("%s: test/e2e has no test %q", f.Path, f.Proof)
		}
	}
}

// TestEveryFieldHasText fails when a field has no verdict, or one without text.
func TestEveryFieldHasText(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range validation.Fields() {
		if f.Kind == "" || f.Text == "" && f.Proof == "" {
			t.Errorf("%s: verdict %q has no text", f.Path, f.Kind)
		}
		if seen[f.Path] {
			t.Errorf("%s is a duplicate", f.Path)
		}
		seen[f.Path] = true
	}
	if len(seen) < 500 {
		t.Errorf("found only %d fields", len(seen))
	}
}

// group is a sequence of fields with one verdict, rendered as one row.
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
	fmt.Fprintf(&b, `# Support for each field of a Pod

This page is generated from `+"`manifest/validation/unsupported_table.go`"+`. Do not edit it.
[What is supported of a Pod](pods.md) explains the behavior behind the table.

The metadata and spec of a Pod have %d fields, not counting those that only
contain other fields:

- %d are **supported**. The end-to-end test in the last column proves it from
  inside the container or in the kernel.
- %d are **ignored**. They are accepted and do not affect the pod, for the
  reason given.
- %d are **unsupported**. A pod that sets one is rejected with the error shown.
- %d are **not yet supported**. They are rejected as well, but a later version may
  support them.

podstead supports %.1f %% of the fields that a single node can support. A field that
is ignored or unsupported together with all fields below it has one row, with
their number.

| Field | Support | Test, reason or error |
|---|---|---|
`, len(fields), count[validation.FieldSupported], count[validation.FieldIgnored], count[validation.FieldUnsupported],
		count[validation.FieldNotYet],
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
			text += "; `" + strings.Join(g.Accepted, "`, `") + "` is accepted"
		}
		fmt.Fprintf(&b, "| `%s | %s | %s |\n", name, g.Kind, strings.ReplaceAll(text, "|", "\\|"))
	}
	return b.String()
}
