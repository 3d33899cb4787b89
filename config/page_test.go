package config

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/configuration.md")

const page = "../docs/configuration.md"

// tables returns the generated tables of the page by name.
func tables() map[string]string {
	byKind := map[string]*strings.Builder{}
	for _, field := range Fields() {
		b := byKind[field.Kind]
		if b == nil {
			b = &strings.Builder{}
			b.WriteString("| field | flag | meaning |\n|---|---|---|\n")
			byKind[field.Kind] = b
		}
		name := ""
		if field.Flag != "" {
			name = "`--" + field.Flag + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", field.Path, name, field.Usage)
	}
	var none strings.Builder
	none.WriteString("| flag | why it has no field |\n|---|---|\n")
	without := WithoutField()
	for _, name := range slices.Sorted(maps.Keys(without)) {
		fmt.Fprintf(&none, "| `--%s` | %s |\n", name, without[name])
	}
	var kubelet strings.Builder
	kubelet.WriteString("| flag | verdict | |\n|---|---|---|\n")
	for _, k := range KubeletFlags() {
		removed := ""
		if k.Removed {
			removed = " (an earlier kubelet's)"
		}
		fmt.Fprintf(&kubelet, "| `--%s`%s | %s | %s |\n", k.Name, removed, k.Verdict, k.Why)
	}
	return map[string]string{
		"flags of a kubelet":   kubelet.String(),
		"KubeletConfiguration": byKind[kubeletKind.Kind].String(), podsteadKind.Kind: byKind[podsteadKind.Kind].String(),
		"flags without a field": none.String(),
	}
}

// The tables of the page are those of the code.
func TestConfigurationPage(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for name, table := range tables() {
		begin, end := fmt.Sprintf("<!-- generated: %s -->\n", name), "<!-- end -->"
		before, rest, ok := strings.Cut(text, begin)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("the page has no table of %s", name)
		}
		text = before + begin + "\n" + table + "\n" + end + after
	}
	if text == string(data) {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date; regenerate it with: go test ./config -run TestConfigurationPage -update", page)
	}
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
