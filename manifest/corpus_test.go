package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// The corpus contains manifests that are typical of what users write. The
// module test/oracle runs it through Kubernetes' own defaulting and validation.
const (
	corpusFiles = "testdata/corpus/*"
	// The minimum content of the corpus.
	minCorpus, minAccepted, minRefused = 150, 100, 60
)

// TestCorpus pins the result for each manifest of the corpus: the messages that
// the user sees, and for a pod the fields that defaulting adds.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob(corpusFiles)
	if err != nil {
		t.Fatal(err)
	}
	var verdicts, defaults strings.Builder
	accepted, refused := 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		content, faults := NewLoader("Node1", ModeStrict).Load(LoadRequest{Source: SourceFile, Unit: name, Data: data})
		for _, fault := range faults {
			if fault.Warning {
				verdicts.WriteString("warning: ")
			}
			fmt.Fprintln(&verdicts, fault.Error())
			if fault.Remedy == "" {
				t.Errorf("%s does not say what would be right: %s", name, fault.Error())
			}
		}
		if faults.Fatal() {
			refused++
			fmt.Fprintln(&verdicts)
			continue
		}
		accepted++
		fmt.Fprintf(&verdicts, "%s: accepted: %s\n\n", name, strings.Join(declared(content), ", "))
		given := givenPods(t, data)
		for _, document := range content.Documents {
			fmt.Fprintf(&defaults, "%s: %s\n", name, fullNameOf(document.Pod))
			for _, line := range addedTo(t, given[document.Digest], document.Pod) {
				fmt.Fprintf(&defaults, "  %s\n", line)
			}
			fmt.Fprintln(&defaults)
		}
	}
	if len(files) < minCorpus || accepted < minAccepted || refused < minRefused {
		t.Errorf("%d manifests, %d accepted and %d rejected; want at least %d, %d and %d",
			len(files), accepted, refused, minCorpus, minAccepted, minRefused)
	}
	checkGolden(t, "corpus-verdicts.txt", verdicts.String())
	checkGolden(t, "corpus-defaults.txt", defaults.String())
}

// declared lists what a unit declares.
func declared(content Content) []string {
	names := []string{}
	for _, document := range content.Documents {
		names = append(names, "Pod "+fullNameOf(document.Pod))
	}
	for i := range content.Objects {
		names = append(names, content.Objects[i].Ref().String())
	}
	return names
}

func fullNameOf(pod *v1.Pod) string { return pod.Namespace + "/" + BaseName(pod) }

// givenPods returns the pods of a unit as they are written, by digest.
func givenPods(t *testing.T, data []byte) map[string]map[string]any {
	t.Helper()
	given := map[string]map[string]any{}
	var find func(value any)
	find = func(value any) {
		object, _ := value.(map[string]any)
		if items, ok := object["items"].([]any); ok {
			for _, item := range items {
				find(item)
			}
			return
		}
		given[documentDigest(object, nil)] = object
	}
	text, fault := decodeText(data)
	if fault != nil {
		t.Fatal(fault)
	}
	for _, c := range splitChunks(text) {
		raws, fault := decodeChunk(c)
		if fault != nil {
			t.Fatal(fault)
		}
		for _, raw := range raws {
			find(raw.value)
		}
	}
	return given
}

// addedTo lists how a loaded pod differs from its manifest, apart from
// its identity: one line for each struct, its fields as name=value.
func addedTo(t *testing.T, given map[string]any, pod *v1.Pod) []string {
	t.Helper()
	if given == nil {
		t.Fatalf("%s: no document has its digest", pod.Name)
	}
	text, err := json.Marshal(withoutIdentity(pod, given))
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := jsonValue(text)
	if err != nil {
		t.Fatal(err)
	}
	before, after := map[string]string{}, map[string]string{}
	collectLeaves(given, "", before)
	collectLeaves(loaded, "", after)

	lines := map[string][]string{}
	note := func(path, text string) {
		at := max(strings.LastIndexAny(path, ".["), 0)
		lines[path[:at]] = append(lines[path[:at]], strings.TrimPrefix(path[at:], ".")+text)
	}
	for _, path := range slices.Sorted(maps.Keys(after)) {
		switch was, set := before[path]; {
		case path == "status" || strings.HasSuffix(path, ".resources"):
			// An empty struct that JSON does not omit.
		case !set:
			note(path, "="+after[path])
		case was != after[path]:
			note(path, "="+after[path]+" (was "+was+")")
		}
	}
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if _, kept := after[path]; !kept && before[path] != "{}" {
			note(path, " taken out")
		}
	}
	var all []string
	for _, at := range slices.Sorted(maps.Keys(lines)) {
		all = append(all, at+": "+strings.Join(lines[at], " "))
	}
	return all
}

// withoutIdentity removes the identity of a static pod, which identities.txt
// pins.
func withoutIdentity(pod *v1.Pod, given map[string]any) *v1.Pod {
	pod = pod.DeepCopy()
	pod.Name = BaseName(pod)
	clearOwnAnnotations(pod)
	pod.Spec.NodeName = ""
	pod.Status = v1.PodStatus{}
	if metadata, _ := given["metadata"].(map[string]any); metadata["uid"] == nil {
		pod.UID = ""
	}
	pod.Spec.Tolerations = slices.DeleteFunc(pod.Spec.Tolerations, func(toleration v1.Toleration) bool {
		return toleration == v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}
	})
	return pod
}

// collectLeaves flattens JSON to its scalars by path. Empty objects and lists are
// leaves; null is omitted.
func collectLeaves(value any, path string, into map[string]string) {
	switch value := value.(type) {
	case nil:
	case map[string]any:
		if len(value) == 0 {
			into[path] = "{}"
		}
		for key, field := range value {
			at := path + "." + key
			if strings.ContainsAny(key, "./") {
				at = path + "[" + key + "]"
			}
			collectLeaves(field, strings.TrimPrefix(at, "."), into)
		}
	case []any:
		if len(value) == 0 {
			into[path] = "[]"
		}
		for i, item := range value {
			collectLeaves(item, fmt.Sprintf("%s[%d]", path, i), into)
		}
	case string:
		into[path] = value
	default:
		text, _ := json.Marshal(value)
		into[path] = string(bytes.TrimSpace(text))
	}
}
