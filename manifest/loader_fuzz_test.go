package manifest

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	sigsyaml "sigs.k8s.io/yaml"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest/validation"
)

// FuzzLoad holds for any bytes: no panic, one response, faults that can be
// printed, all or nothing; and what is accepted keeps its identity when its
// keys are shuffled and it is written as JSON or YAML.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/pods/*", "testdata/faults/*", "../examples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, uint64(1))
		}
	}
	f.Add([]byte(objectsText+"---\n"+loaderPod), uint64(4))
	f.Add([]byte(loaderPod+"---\n"+strings.ReplaceAll(loaderPod, "web", "db")), uint64(2))
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: b, <<: {args: "+
		"[c]}}]}\n"), uint64(3))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		for _, mode := range []Mode{ModeStrict, ModeWarn, ModeIgnore} {
			content, faults := loadContent(mode, string(data))
			again, sameFaults := loadContent(mode, string(data))
			if !reflect.DeepEqual(content, again) || !reflect.DeepEqual(faults, sameFaults) {
				t.Fatalf("%s: two answers:\n%v\n%v", mode, faults, sameFaults)
			}
			checkFaults(t, mode, content, faults)
			for _, raw := range acceptedDocuments(data, faults) {
				checkRewritten(t, mode, raw, rand.New(rand.NewPCG(seed, 0)))
			}
		}
	})
}

func checkFaults(t *testing.T, mode Mode, content Content, faults Faults) {
	documents := content.Documents
	if faults.Fatal() && !content.isEmpty() || len(faults) > maxFaults+1 {
		t.Fatalf("%s: %d documents and %d faults", mode, len(documents), len(faults))
	}
	for _, fault := range faults {
		text := fault.Error()
		if fault.Problem == "" || fault.Line < 0 || strings.Contains(fault.Problem, "cannot be decoded") {
			t.Fatalf("%s: incomplete fault %q", mode, text)
		}
		if mode == ModeIgnore && fault.Warning {
			t.Fatalf("unexpected warning: %s", text)
		}
	}
	refs := map[ObjectRef]bool{}
	for i := range content.Objects {
		ref := content.Objects[i].Ref()
		if ref.Name == "" || refs[ref] || len(content.Objects[i].Digest) != 64 ||
			(ref.Namespace == "") != isClusterScoped(ref.Kind) {
			t.Fatalf("%s: poor object %v", mode, content.Objects[i])
		}
		refs[ref] = true
	}
	for _, document := range documents {
		if !regexp.MustCompile(`^[A-Za-z0-9-]{1,63}$`).MatchString(string(document.Pod.UID)) || document.Pod.Name == "" ||
			len(document.Digest) != 64 {
			t.Fatalf("%s: incomplete pod %v", mode, document)
		}
		if errs := validation.Unsupported(document.Pod); document.Pod.Annotations[podinfo.AnnotationHash] == "" ||
			len(errs) > 0 {
			t.Fatalf("%s: %v", mode, errs)
		}
	}
}

// acceptedDocuments are the documents of a unit without a fault, decoded.
func acceptedDocuments(data []byte, faults Faults) []any {
	if len(faults) > 0 {
		return nil
	}
	text, _ := decodeText(data)
	var values []any
	for _, c := range splitChunks(text) {
		raws, _ := decodeChunk(c)
		for _, raw := range raws {
			if len(duplicateKeys(raw.tree)) == 0 {
				values = append(values, raw.value)
			}
		}
	}
	return values
}

func checkRewritten(t *testing.T, mode Mode, value any, random *rand.Rand) {
	plain, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	inYAML, err := sigsyaml.JSONToYAML(plain)
	if err != nil {
		t.Fatal(err)
	}
	want, faults := loadContent(mode, string(plain))
	if faults.Fatal() {
		t.Fatalf("%s: rejected as JSON: %v\n%s", mode, faults, plain)
	}
	for _, text := range []string{shuffled(value, random), string(inYAML)} {
		got, faults := loadContent(mode, text)
		if faults.Fatal() || len(got.Documents) != len(want.Documents) || !reflect.DeepEqual(got.Objects, want.Objects) {
			t.Fatalf("%s: %d documents, %v\n%s", mode, len(got.Documents), faults, text)
		}
		for i := range got.Documents {
			if a, b := got.Documents[i].Pod, want.Documents[i].Pod; a.UID != b.UID || !maps.Equal(a.Annotations, b.Annotations) {
				t.Fatalf("%s: another identity: %s %v, want %s %v\n%s", mode, a.UID, a.Annotations, b.UID, b.Annotations, text)
			}
		}
	}
}

// shuffled is a value as JSON with its keys in any order.
func shuffled(value any, random *rand.Rand) string {
	var parts []string
	switch value := value.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(value))
		random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for _, key := range keys {
			parts = append(parts, jsonText(key)+":"+shuffled(value[key], random))
		}
		return "{" + strings.Join(parts, ",\n") + "}"
	case []any:
		for _, item := range value {
			parts = append(parts, shuffled(item, random))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	return jsonText(value)
}

// FuzzLines looks up any path in any document.
func FuzzLines(f *testing.F) {
	f.Add(loaderPod, "spec.containers[0].image")
	f.Add("a: &a {b: *a}", "a.b.b.b")
	f.Add("metadata: {annotations: {example.com/a[0].b: x}}", "metadata.annotations[example.com/a[0].b]")
	f.Add("{<<: [{a: 1}, {b: 2}]}", "[x].b[")
	for _, empty := range []string{"---", "---\n", "--- # x", "- a\n-", "a:\n- ", "\r---", "-\r\n-\r\n"} {
		f.Add(empty, "a[1]")
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		tree, err := yamlTree([]byte(text))
		if err != nil || tree == nil {
			return
		}
		at := newLocation(tree, 3)
		if line := at.line(path); line < 4 ||
			line > 4+strings.Count(text, "\n")+strings.Count(text, "\r")+strings.Count(text, "\u0085")+
				strings.Count(text, "\u2028")+strings.Count(text, "\u2029") {
			t.Errorf("line %d", line)
		}
		at.node(path)
		at.item(path)
	})
}

// jsonText is a scalar as JSON writes it.
func jsonText(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}
