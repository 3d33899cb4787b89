package edit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podstead/podstead/manifest"
)

// Every character that JSON can have gets into a manifest and comes back from it, in a new
// document and in one that is changed.
func TestEveryCharacterIsKept(t *testing.T) {
	var all []rune
	for r := rune(1); r < 0x3000; r++ {
		all = append(all, r)
	}
	all = append(all, 0xfdd0, 0xfeff, 0xfffd, 0xfffe, 0xffff, 0x1f600, 0x10ffff)
	path := t.TempDir()
	object := func(data map[string]any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}, "data": data}
	}
	ref := manifest.ObjectRef{Kind: "ConfigMap", Namespace: "default", Name: "c"}
	data := map[string]any{}
	for i := 0; i < len(all); i += 64 {
		text := ""
		for _, r := range all[i:min(i+64, len(all))] {
			text += "a" + string(r) + "b\n" + string(r)
		}
		data["k"] = text
		doc, err := New(object(data))
		if err != nil {
			t.Fatalf("from U+%04X: %v", all[i], err)
		}
		parts, faults := manifest.Parts("x", doc.Text)
		if len(faults) > 0 || len(parts) != 1 || !sameValue(parts[0].Value, doc.Value) {
			t.Errorf("from U+%04X: %v\n%s", all[i], faults, doc.Text)
		}
	}
	if err := os.WriteFile(filepath.Join(path, "c.yaml"),
		[]byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c # kept\ndata:\n  k: v\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := New(object(map[string]any{"k": "a\u007fb", "l": "\u0080"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Merge(doc); err != nil {
		t.Fatal(err)
	}
	found, err := d.Find(ref)
	if err != nil || !sameValue(found.Value, doc.Value) {
		t.Errorf("after a change: %v\n%s", err, found.Text)
	}
}
