package manifest

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

const loaderPod = `apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: web
    image: nginx:1.29
`

func loadContent(mode Mode, text string) (Content, Faults) {
	return NewLoader("Node1", mode).Load(LoadRequest{Source: SourceFile, Unit: "web.yaml", Data: []byte(text)})
}

func loadText(mode Mode, text string) ([]Document, Faults) { return podsOf(loadContent(mode, text)) }

// podsOf returns the loaded pods.
func podsOf(content Content, faults Faults) ([]Document, Faults) { return content.Documents, faults }

func mustLoad(t *testing.T, text string) []Document {
	t.Helper()
	documents, faults := loadText(ModeStrict, text)
	if len(faults) > 0 {
		t.Fatalf("%v in\n%s", faults, text)
	}
	return documents
}

func TestLoadCreatesStaticPods(t *testing.T) {
	documents := mustLoad(t, loaderPod)
	if len(documents) != 1 {
		t.Fatalf("%d documents", len(documents))
	}
	pod := documents[0].Pod
	uid := string(pod.UID)
	if len(uid) != 32 || strings.Trim(uid, "0123456789abcdef") != "" {
		t.Errorf("UID %q", uid)
	}
	for what, values := range map[string][2]any{
		"name":      {pod.Name, "web-node1"},
		"base name": {BaseName(pod), "web"},
		"namespace": {pod.Namespace, "default"},
		"node":      {pod.Spec.NodeName, "Node1"},
		"source":    {pod.Annotations[podinfo.AnnotationSource], "file"},
		"phase":     {pod.Status.Phase, v1.PodPending},
		"default":   {pod.Spec.RestartPolicy, v1.RestartPolicyAlways},
		"kind":      {pod.Kind, "Pod"},
		"toleration": {fmt.Sprint(pod.Spec.Tolerations),
			fmt.Sprint([]v1.Toleration{{Operator: "Exists", Effect: "NoExecute"}})},
	} {
		if values[0] != values[1] {
			t.Errorf("%s is %v, want %v", what, values[0], values[1])
		}
	}
	if len(pod.Annotations[podinfo.AnnotationHash]) != 32 || len(pod.Annotations[podinfo.AnnotationTemplate]) != 32 {
		t.Errorf("annotations %v", pod.Annotations)
	}

	request := LoadRequest{Source: SourceHTTP, Unit: "http://example.com/", Data: []byte(loaderPod)}
	fromURL, _ := podsOf(NewLoader("Node1", ModeStrict).Load(request))
	elsewhere, _ := podsOf(NewLoader("other", ModeStrict).Load(request))
	if got := fromURL[0].Pod; len(got.Spec.Tolerations) > 0 || got.Annotations[podinfo.AnnotationSource] != "http" {
		t.Errorf("from a URL: %v", got)
	}
	if a, b := fromURL[0].Pod.UID, elsewhere[0].Pod.UID; a == b || string(a) == uid {
		t.Errorf("source and node do not change the UID: %s %s %s", uid, a, b)
	}
	request.Unit = "http://example.com/other"
	if renamed, _ := podsOf(NewLoader("Node1", ModeStrict).Load(request)); renamed[0].Pod.UID != fromURL[0].Pod.UID {
		t.Error("the location of a manifest changes the identity")
	}
}

func TestBaseName(t *testing.T) {
	pod := &v1.Pod{}
	pod.Name, pod.Spec.NodeName = "web-node1", "node1"
	if got := BaseName(pod); got != "web-node1" {
		t.Errorf("of an API pod: %q", got)
	}
	pod.Annotations = map[string]string{podinfo.AnnotationSource: "http"}
	if got := BaseName(pod); got != "web" {
		t.Errorf("of a static pod: %q", got)
	}
}

// TestLoadEquivalentManifests loads the same pod from many equivalent manifests.
func TestLoadEquivalentManifests(t *testing.T) {
	want := mustLoad(t, loaderPod)[0].Pod
	indented := "  " + strings.ReplaceAll(strings.TrimSpace(strings.Replace(loaderPod, "apiVersion: v1\n", "", 1)), "\n",
		"\n  ") + "\n"
	item := "- apiVersion: v1\n" + indented
	json := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"web","image":"nginx:1.29"}]}}`
	forms := map[string]string{
		"byte order mark":     "\ufeff" + loaderPod,
		"CRLF":                strings.ReplaceAll(loaderPod, "\n", "\r\n"),
		"CR":                  strings.ReplaceAll(loaderPod, "\n", "\r"),
		"markers":             "# head\n---\n---\n# none\n--- # this one\n" + loaderPod + "---\n# tail\n---\n...\n",
		"directive":           "%YAML 1.1\n---\n" + loaderPod,
		"null documents":      "---\nnull\n---\n~\n---\n" + loaderPod,
		"no newline at end":   strings.TrimSuffix(loaderPod, "\n"),
		"JSON":                json,
		"JSON with escapes":   strings.Replace(json, `"web"`, `"\u0077eb"`, 1),
		"JSON, indented":      strings.ReplaceAll(json, ",", ",\n\t"),
		"JSON with a comment": json + "\n# generated\n",
		"YAML in braces": "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: web, image: " +
			"'nginx:1.29'}]}}",
		"PodList": "apiVersion: v1\nkind: PodList\nmetadata: {resourceVersion: ''}\nitems:\n" + item,
		"PodList, bare items": "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: web}\n  spec: {containers: " +
			"[{name: web, image: 'nginx:1.29'}]}",
		"List": "apiVersion: v1\nkind: List\nitems:\n" + item,
		"List in a List": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n  " +
			strings.ReplaceAll(item, "\n", "\n  "),
		"anchor and alias": strings.Replace(strings.Replace(loaderPod, "name: web", "name: &n web", 1), "- name: web",
			"- name: *n", 1),
		"merge key": strings.Replace(loaderPod, "  - name: web\n    image: nginx:1.29",
			"  - <<: {name: web, image: 'nginx:1.29'}", 1),
		"quoted key":           strings.Replace(loaderPod, "kind:", `"kind":`, 1),
		"status from a server": loaderPod + "status: {phase: Running, podIP: 10.0.0.1}\n",
	}
	for name, form := range forms {
		documents, faults := loadText(ModeStrict, form)
		if len(faults) > 0 || len(documents) != 1 {
			t.Errorf("%s: %d documents, %v", name, len(documents), faults)
			continue
		}
		got := documents[0].Pod
		if got.UID != want.UID || got.Annotations[podinfo.AnnotationHash] != want.Annotations[podinfo.AnnotationHash] {
			t.Errorf("%s: UID %s, want %s", name, got.UID, want.UID)
		}
	}
}

func TestLoadEmptyLists(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nkind: PodList\nitems: []",
		"apiVersion: v1\nkind: List\nitems: []\n",
		"apiVersion: v1\nkind: PodList\nmetadata: {}\nitems: null\n",
		`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":null}`,
		`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`,
	} {
		if documents, faults := loadText(ModeStrict, text); len(documents)+len(faults) > 0 {
			t.Errorf("%s: %v %v", text, documents, faults)
		}
	}
}

func TestLoadManyDocuments(t *testing.T) {
	db := strings.ReplaceAll(loaderPod, "web", "db")
	inJSON := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[{"name":"a","image":"b"}]}}`
	documents := mustLoad(t, loaderPod+"---\n"+db+"---\n"+inJSON+"\n"+strings.Replace(inJSON, "x", "y", 1))
	var names []string
	for _, document := range documents {
		names = append(names, BaseName(document.Pod))
	}
	if got := strings.Join(names, " "); got != "web db x y" {
		t.Errorf("got %s", got)
	}
	// The fault is in the last document: nothing is loaded.
	documents, faults := loadText(ModeStrict, loaderPod+"---\n"+strings.Replace(db, "image", "imag", 1))
	if len(documents) > 0 || len(faults) != 1 || faults[0].Line != 17 {
		t.Errorf("%d documents, %v", len(documents), faults)
	}
}

func TestLoadModes(t *testing.T) {
	text := loaderPod + "    imagePullPolicy: Never\n    imagePullPolicy: Always\n    replicas: 3\n    args: [a, ]\n    " +
		"command:\n    -\n"
	for mode, warnings := range map[Mode]int{ModeWarn: 3, ModeIgnore: 0} {
		documents, faults := loadText(mode, text)
		if faults.Fatal() || len(faults) != warnings || len(documents) != 1 {
			t.Errorf("%s: %d documents, %v", mode, len(documents), faults)
			continue
		}
		if got := documents[0].Pod.Spec.Containers[0].ImagePullPolicy; got != v1.PullAlways {
			t.Errorf("%s: the last of two values should be used, got %s", mode, got)
		}
	}
	if documents, faults := loadText(ModeStrict, text); len(documents) > 0 || len(faults) != 3 || !faults.Fatal() {
		t.Errorf("strict: %d documents, %v", len(documents), faults)
	}
	for _, mode := range []Mode{ModeStrict, ModeWarn, ModeIgnore} {
		if _, faults := loadText(mode, strings.Replace(text, "args: [a, ]", "args: a", 1)); !faults.Fatal() {
			t.Errorf("%s: a value of the wrong type is accepted", mode)
		}
		// A misspelled field is absent, which is another fault.
		if _, faults := loadText(mode, strings.Replace(loaderPod, "image:", "Image:", 1)); !faults.Fatal() {
			t.Errorf("%s: a field in the wrong case is accepted", mode)
		}
	}
	for name, want := range map[string]Mode{"": ModeStrict, "strict": ModeStrict, "warn": ModeWarn, "ignore": ModeIgnore} {
		if got, err := ParseMode(name); got != want || err != nil {
			t.Errorf("%q: %s, %v", name, got, err)
		}
	}
	if _, err := ParseMode("Strict"); err == nil {
		t.Error("Strict is accepted")
	}
}

func TestLoadUsesKnownPods(t *testing.T) {
	known := &v1.Pod{}
	known.Name, known.UID, known.Spec.NodeName = "kept", "kept-uid", "node1"
	// A version that did not reject it accepted this one.
	old := strings.Replace(loaderPod, "image:", "fromTheFuture: {}\n    image:", 1)
	loader := NewLoader("node1", ModeStrict)
	var digest string
	request := LoadRequest{Source: SourceFile, Unit: "web.yaml", Data: []byte(old), Known: func(d string) (*v1.Pod, bool) {
		digest = d
		return known, true
	}}
	documents, faults := podsOf(loader.Load(request))
	if len(faults) > 0 || len(documents) != 1 || documents[0].Pod != known || documents[0].Digest != digest {
		t.Fatalf("%v %v", documents, faults)
	}
	request.Known = func(d string) (*v1.Pod, bool) { return known, d == digest }
	same := map[string]string{
		"a comment":  old + "# hello\n",
		"JSON order": strings.Replace(old, "apiVersion: v1\nkind: Pod", "kind: Pod\napiVersion: v1", 1),
		"in a list":  "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(old), "\n", "\n  "),
	}
	for name, text := range same {
		request.Data = []byte(text)
		if documents, faults := podsOf(loader.Load(request)); len(faults) > 0 || documents[0].Pod != known {
			t.Errorf("%s: %v %v", name, documents, faults)
		}
	}
	edited := map[string]string{
		"another image":    strings.Replace(old, "1.29", "1.30", 1),
		"a double":         strings.Replace(old, "image:", "image: other\n    image:", 1),
		"a default":        old + "    imagePullPolicy: IfNotPresent\n",
		"an empty mapping": old + "    securityContext: {}\n",
	}
	for name, text := range edited {
		request.Data = []byte(text)
		if documents, faults := podsOf(loader.Load(request)); !faults.Fatal() {
			t.Errorf("%s is not validated: %v %v", name, documents, faults)
		}
	}
}

func TestLoadIgnoresKnownPodsOfAnotherNode(t *testing.T) {
	request := LoadRequest{Source: SourceFile, Unit: "web.yaml", Data: []byte(loaderPod)}
	before, _ := podsOf(NewLoader("before", ModeStrict).Load(request))
	request.Known = func(string) (*v1.Pod, bool) { return before[0].Pod, true }
	after, faults := podsOf(NewLoader("after", ModeStrict).Load(request))
	if len(faults) > 0 || after[0].Pod.Name != "web-after" || after[0].Digest != before[0].Digest {
		t.Errorf("%v %v", after, faults)
	}
}

func TestLoadExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		if documents, faults := loadFile(t, file, ModeStrict); len(documents) == 0 || len(faults) > 0 {
			t.Errorf("%s: %d documents, %v", file, len(documents), faults)
		}
	}
}

func TestLoadLimitsSize(t *testing.T) {
	filler := "\n#" + strings.Repeat("x", MaxUnitSize-len(loaderPod)-2)
	if documents, faults := loadText(ModeStrict, loaderPod+filler); len(documents) != 1 || len(faults) > 0 {
		t.Errorf("10 MiB: %d documents, %v", len(documents), faults)
	}
	if _, faults := loadText(ModeStrict, loaderPod+filler+"x"); !faults.Fatal() ||
		!strings.Contains(faults.Error(), "10 MiB") {
		t.Errorf("a byte more: %v", faults)
	}
}

// TestLoadLimitsCost loads manifests that are designed to be expensive.
func TestLoadLimitsCost(t *testing.T) {
	bombs := map[string]string{
		"aliases of a long string": "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 10_000) + "]",
		"aliases in aliases":       aliasBomb(40, 9),
		"merges": "a: &a {x: " + strings.Repeat("y", 1<<20) + "}\nb: [" +
			strings.Repeat("{<<: *a},", 10_000) + "]",
		"depth by aliases": depthBomb(),
		"unknown fields":   "apiVersion: v1\nkind: Pod\n" + manyFields(20_000),
		"brackets":         strings.Repeat("[", 1<<20),
		"JSON brackets":    `{"a":` + strings.Repeat("[", 1<<20),
		"indents":          strings.Repeat("- ", 1<<20),
		"dense list":       "a: [" + strings.Repeat("a,", 5<<20-8) + "a]",
		"number keys":      strings.Repeat("0x1: b\n", 10_000),
		"documents":        strings.Repeat("---\na\n", 50_000),
		"items":            "apiVersion: v1\nkind: PodList\nitems:\n" + strings.Repeat("- {kind: x}\n", 20_000),
		"long names":       loaderPod + "    " + strings.Repeat("x", 1<<20) + ": 1\n",
	}
	for name, bomb := range bombs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		documents, faults := loadText(ModeStrict, bomb)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		if len(documents) > 0 || !faults.Fatal() || len(faults) > maxFaults+1 {
			t.Errorf("%s: %d documents, %d faults", name, len(documents), len(faults))
		}
		if longest := len(faults.Error()); longest > 1<<20 {
			t.Errorf("%s: %d bytes of faults", name, longest)
		}
		allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%s: %d MiB, %s", name, allocated, took)
		if allocated > 1024 {
			t.Errorf("%s takes %d MiB", name, allocated)
		}
	}
}

func aliasBomb(levels, width int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x]\n")
	for i := range levels {
		alias := fmt.Sprintf("*a%d,", i)
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(alias, width))
	}
	return b.String()
}

func depthBomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 x\n")
	for i := range 10_000 {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d]\n", i+1, i+1, i)
	}
	return b.String()
}

func manyFields(n int) string {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "imageeee%d: x\n", i)
	}
	return b.String()
}
