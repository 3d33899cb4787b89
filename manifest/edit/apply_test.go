package edit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestApplyChoosesTheFile(t *testing.T) {
	const a, b = "kind: ConfigMap\nmetadata: {name: a}\n", "kind: ConfigMap\nmetadata: {name: b}\n"
	const changed = "kind: ConfigMap\nmetadata: {name: a, labels: {x: y}}\n"
	for name, c := range map[string]struct {
		before     map[string]string
		unit, text string
		file, want string
	}{
		"new ones are copied": {nil, "/tmp/hello.yaml", "# head\n" + a + "---\n" + b + "# foot\n", "hello.yaml",
			"# head\n" + a + "---\n" + b + "# foot\n"},
		"new ones join the others": {map[string]string{"site.yml": a}, "/tmp/hello.yaml", changed + "---\n# why\n" + b,
			"site.yml", changed + "---\n# why\n" + b},
		"a taken name":   {map[string]string{"hello.yaml": b}, "/tmp/hello.yaml", a, "hello-2.yaml", a},
		"standard input": {nil, "-", pod("web", "x"), "web.yaml", pod("web", "x")},
		"an object of standard input": {nil, "-", "kind: Secret\nmetadata: {name: s, namespace: prod}\n",
			"prod-s-secret.yaml", "kind: Secret\nmetadata: {name: s, namespace: prod}\n"},
		"a list becomes documents": {nil, "/tmp/all.yaml",
			"kind: List\nitems:\n- kind: ConfigMap\n  metadata: {name: a}\n- kind: ConfigMap\n  metadata: {name: b}\n",
			"all.yaml", "kind: ConfigMap\nmetadata:\n  name: a\n---\nkind: ConfigMap\nmetadata:\n  name: b\n"},
		"JSON becomes YAML": {nil, "-", `{"kind": "Pod", "metadata": {"name": "web"}}`, "web.yaml",
			"kind: Pod\nmetadata:\n  name: web\n"},
		"JSON is copied": {nil, "/tmp/web.json", `{"kind": "Pod", "metadata": {"name": "web"}}`, "web.json",
			`{"kind": "Pod", "metadata": {"name": "web"}}`},
	} {
		dir := in(t, c.before)
		d := read(t, dir)
		changes, err := d.Apply(c.unit, []byte(c.text), documents(t, c.text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := d.Commit(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := os.ReadFile(filepath.Join(dir, c.file))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", name, err, got, c.want)
		}
		for _, change := range changes {
			if change.File != filepath.Join(dir, c.file) {
				t.Errorf("%s: %+v", name, change)
			}
		}
		again := read(t, dir)
		if changes, err := again.Apply(c.unit, []byte(c.text), documents(t, c.text)); err != nil ||
			len(again.Changes()) > 0 || changes[0].Verb() != "unchanged" {
			t.Errorf("%s: a second time: %v, %v", name, err, changes)
		}
	}
}

// The name of a file has at most 255 bytes, that of an object 253.
func TestLongNames(t *testing.T) {
	dir := t.TempDir()
	for _, last := range []string{"a", "b"} {
		name := strings.Repeat("x", 252) + last
		d, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		docs, _ := Documents("-", []byte(counter(name, 1)))
		if _, err := d.Apply("-", docs[0].Text, docs); err != nil {
			t.Fatal(err)
		}
		if err := d.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		increment(t, dir, name)
	}
}
