package change

import (
	"encoding/json"
	"maps"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/objectpatch"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// generated are the annotations that an object in the API has and its document does not need:
// those of the daemon and the kubelet, and the one in which kubectl apply keeps what it has
// applied, which is the document itself.
var generated = []string{
	podinfo.AnnotationSource, podinfo.AnnotationHash, podinfo.AnnotationSeen, podinfo.AnnotationMirror,
	podinfo.AnnotationTemplate, podinfo.AnnotationImages, v1.LastAppliedConfigAnnotation,
}

// loaded is an object as the daemon reads it from its document.
type loaded struct {
	object map[string]any
	pod    *v1.Pod
	digest string
}

// load reads the text of one document as the daemon does. The faults may be warnings.
func (w *Writer) load(unit string, text []byte) (loaded, manifest.Faults) {
	content, faults := w.loader.Load(manifest.LoadRequest{Source: manifest.SourceFile, Unit: unit, Data: text})
	if faults.Fatal() {
		return loaded{}, faults
	}
	var one loaded
	var typed any
	switch {
	case len(content.Documents) > 0:
		one.digest, one.pod = content.Documents[0].Digest, content.Documents[0].Pod
		typed = one.pod
	case len(content.Objects) > 0:
		one.digest, typed = content.Objects[0].Digest, content.Objects[0].Value()
	}
	one.object = decoded(typed)
	return one, faults
}

// decoded returns a typed object as a client sees it.
func decoded(typed any) map[string]any {
	text, err := json.Marshal(typed)
	if err != nil {
		return nil
	}
	object, err := objectpatch.Decode(text)
	if err != nil {
		return nil
	}
	delete(object, "status")
	return object
}

// declarable returns the part of an object that a document declares, and whose changes are
// transferred to it.
func declarable(object map[string]any) map[string]any {
	part := map[string]any{}
	for key, value := range object {
		switch key {
		case "apiVersion", "kind", "status", "metadata":
		default:
			part[key] = value
		}
	}
	kept := map[string]any{}
	metadata, _ := object["metadata"].(map[string]any)
	for _, key := range []string{"labels", "annotations"} {
		switch values := metadata[key].(type) {
		case nil:
		case map[string]any:
			if own := withoutGenerated(values); len(own) > 0 {
				kept[key] = own
			}
		default:
			kept[key] = values // of the wrong type, which is a fault
		}
	}
	part["metadata"] = kept
	return part
}

func withoutGenerated(annotations map[string]any) map[string]any {
	own := maps.Clone(annotations)
	for _, key := range generated {
		delete(own, key)
	}
	return own
}
