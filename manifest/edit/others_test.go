package edit

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/manifest"
)

// scalars are values at the end of a document, whose form decides what the lines after them mean.
var scalars = []string{
	"v", "'v'", "\"v\\\n\"", "|\n    a\n", "|-\n    a\n", "|+\n    a\n", "|+\n    a\n\n\n", "|+ # c\n    a\n\n",
	"|2+\n    a\n\n",
	"|+2\n    a\n", ">\n    a\n    b\n", ">-\n    a\n", ">+\n    a\n\n", ">+\n    a\n    # no comment\n", "|+\n\n\n",
	"|\n    a\n\n    b\n",
	"a\n    b\n", "'a\n\n    b'\n", "|+\n    a\n\n    # no comment\n\n", "|+\r\n    a\r\n\r\n", "'a |+'", "a |+",
}

// randomDocument returns a ConfigMap that ends with a value of its own, with lines before and after it.
func randomDocument(r *rand.Rand, name string) string {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	text := pick("", "", "# above\n", "\n", "# file\n\n# above\n") +
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata:\n  k: " + scalars[r.IntN(len(scalars))]
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + pick("", "", "\n", "\n\n", "# below\n", "\n# below\n\n", " \n")
}

// Whatever is done to one document of a file, the bytes and the value of all others stay, or nothing is done.
func TestOtherDocumentsKeepTheirBytes(t *testing.T) {
	refused := 0
	const rounds = 800
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		var text strings.Builder
		count := 2 + r.IntN(3)
		for i := range count {
			marker := []string{"---\n", "---\n", "--- # marker\n", "...\n---\n", "...\n"}[r.IntN(5)]
			if i == 0 {
				marker = []string{"", "---\n", "%YAML 1.1\n---\n"}[r.IntN(3)]
			}
			text.WriteString(marker + randomDocument(r, fmt.Sprint("c", i)))
		}
		content := text.String()
		if r.IntN(4) == 0 {
			content = strings.TrimSuffix(content, "\n")
		}
		path := filepath.Join(t.TempDir(), "m.yaml")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := Read(filepath.Dir(path))
		if err != nil || len(d.Faults()) > 0 {
			t.Fatalf("seed %d: %v %v\n%s", seed, err, d.Faults(), content)
		}
		edited := fmt.Sprint("c", r.IntN(count+1)) // the last one is new
		ref := manifest.ObjectRef{Kind: "ConfigMap", Namespace: "default", Name: edited}
		before := documentsWithout(t, d, ref)
		docs, faults := Documents("new.yaml", []byte(randomDocument(r, edited)))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		switch r.IntN(3) {
		case 0:
			if edited == fmt.Sprint("c", count) {
				continue
			}
			_, err = d.Remove(ref)
		case 1:
			_, err = d.Write(docs[0], "m.yaml")
		default:
			if edited == fmt.Sprint("c", count) {
				continue
			}
			_, err = d.Merge(docs[0])
		}
		if err != nil {
			if strings.HasSuffix(content, "\n") {
				t.Errorf("seed %d: %v\n%q\nnew %q\n%q", seed, err, content, docs[0].Text, d.files[path].after)
			}
			refused++
			continue
		}
		after := documentsWithout(t, d, ref)
		if fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("seed %d: %s of\n%q\nhas given\n%q", seed, edited, content, d.files[path].after)
		}
	}
	if refused > rounds/10 {
		t.Errorf("%d of %d edits were refused", refused, rounds)
	}
}

// documentsWithout returns the text and the value of each document of another object.
func documentsWithout(t *testing.T, d *Directory, edited manifest.ObjectRef) (all []string) {
	t.Helper()
	for _, ref := range d.Refs() {
		if ref == edited {
			continue
		}
		found, err := d.Find(ref)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%q %q", withLineEnd(found.Text), fmt.Sprint(found.Value)))
	}
	return all
}
