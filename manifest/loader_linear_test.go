package manifest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// faultyManifests have as many faults as their size allows, each of one kind.
var faultyManifests = map[string]func(size int) string{
	"duplicate keys":        repeated("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n", "  hostname: a\n"),
	"duplicates, long path": longPath,
	"unknown fields":        repeated("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n", "  hostname%d: a\n"),
	"empty containers": repeated("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n",
		"  - {}\n"),
	"same containers": repeated("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n",
		"  - {name: a, image: b}\n"),
	"limits": repeated("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: a\n    "+
		"image: b\n    resources:\n      limits:\n", "        x%d: -1\n"),
	"labels": repeated("apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, image: b}]}\nmetadata:\n  "+
		"name: p\n  labels:\n", "    a b%d: c d\n"),
	"volumes": repeated("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: a, image: "+
		"b}]\n  volumes:\n", "  - {name: q, rbd: {image: x}}\n"),
	"mounts": repeated("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: a\n    "+
		"image: b\n    volumeMounts:\n", "    - {name: q, mountPath: /a}\n"),
	"ports": repeated("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: a\n    "+
		"image: b\n    ports:\n", "    - {name: a, containerPort: 1, hostPort: 1}\n"),
	"list":           repeated("apiVersion: v1\nkind: PodList\nitems:\n", "- {}\n"),
	"JSON documents": repeated("", "{}\n"),
	"YAML documents": repeated("", "---\na: b: c\n"),
}

// repeated returns a generator of manifests that repeat a text, whose %d counts.
func repeated(head, text string) func(int) string {
	return func(size int) string {
		var b strings.Builder
		b.WriteString(head)
		for i := 0; b.Len() < size; i++ {
			b.WriteString(strings.ReplaceAll(text, "%d", fmt.Sprint(i)))
		}
		return b.String()
	}
}

// longPath returns a manifest with many duplicates below a long key.
func longPath(size int) string {
	return `{"apiVersion": "v1", "kind": "Pod", "` + strings.Repeat("k", size/2) + `": {` +
		strings.Repeat(`"a":1,`, size/2/6) + `"a":1}}`
}

// The memory and time that a faulty manifest costs grow with its size, not with the
// square of it: other manifests of the directory wait meanwhile. (What a search of
// all faults for each fault costs is also allocated here, as paths.)
func TestFaultyManifestsAreLinear(t *testing.T) {
	cost := func(text string) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = NewLoader("n", ModeWarn).Load(LoadRequest{Source: "file", Unit: "/x.yaml", Data: []byte(text)})
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	for name, text := range faultyManifests {
		const size = 8 << 10
		cost(text(size))
		small, large := cost(text(size)), cost(text(4*size))
		if factor := large / small; factor > 6 {
			t.Errorf("%s: 4 times the size costs %.1f times the memory, %.0f bytes", name, factor, large)
		}
	}
}

// The search for the line of a syntax error parses a bounded amount of text.
func TestFailingLineIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"pairs of brackets": strings.Repeat("- [a,\n  b]\n", maxSearched/12) + " x: y: z\n",
		"quoted values":     strings.Repeat("a: 'x\n y'\n", maxSearched/12) + "b: [\n",
		"an error at last":  strings.Repeat("- a\n", maxSearched/5) + "b: c: d\n",
	} {
		parsed := 0
		searchFailingLine([]byte(text), func(text []byte) bool {
			parsed += len(text)
			_, err := yamlTree(text)
			return err == nil
		})
		if parsed > maxParsed {
			t.Errorf("%s: parsed %d bytes for a text of %d", name, parsed, len(text))
		}
	}
}

func BenchmarkFaultyManifests(b *testing.B) {
	for name, text := range faultyManifests {
		for _, size := range []int{64 << 10, 255 << 10} {
			data := []byte(text(size))
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					_, _ = NewLoader("n", ModeStrict).Load(LoadRequest{Source: "file", Unit: "/x.yaml", Data: data})
				}
			})
		}
	}
}
