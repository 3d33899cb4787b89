package kubeapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/objectpatch"
)

// shownObject returns a declared object with the metadata and the status that clients see.
func shownObject(object map[string]any, e *entry, name string) map[string]any {
	shown := maps.Clone(object)
	metadata, _ := shown["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["name"] = name
	if e != nil {
		metadata["resourceVersion"], metadata["uid"] = e.object.GetResourceVersion(), string(e.object.GetUID())
		if live, err := objectpatch.Decode(e.bytes()); err == nil {
			if live["status"] != nil {
				shown["status"] = live["status"]
			}
			withEphemeral(shown, live)
			if created := live["metadata"].(map[string]any)["creationTimestamp"]; created != nil {
				metadata["creationTimestamp"] = created
			}
		}
	}
	shown["metadata"] = metadata
	return shown
}

// encode returns a written object that the API does not show yet. before is what it shows.
func (a *API) encode(res *resource, written Written, before *entry) ([]byte, error) {
	object := maps.Clone(written.Object)
	if object == nil {
		object = map[string]any{}
	}
	metadata, _ := object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	delete(object, "stringData")
	if before != nil {
		metadata["resourceVersion"] = before.object.GetResourceVersion()
		if metadata["uid"] == nil {
			metadata["uid"] = string(before.object.GetUID())
		}
		if live, err := objectpatch.Decode(before.bytes()); err == nil && metadata["uid"] == string(before.object.GetUID()) && live["status"] != nil {
			object["status"] = live["status"]
		}
	}
	if res.kind == "Pod" && object["status"] == nil {
		object["status"] = map[string]any{"phase": "Pending"}
	}
	object["metadata"], object["kind"], object["apiVersion"] = metadata, res.kind, res.apiVersion()
	return json.Marshal(object)
}

// sendWritten answers a write with the object and the warnings about it.
func sendWritten(w http.ResponseWriter, code int, written Written, body []byte) {
	for i, text := range written.Warnings {
		if i == maxWarnings {
			break
		}
		w.Header().Add("Warning", `299 - "`+headerText(text)+`"`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that has disconnected needs no answer
}

// headerText returns a text as the content of a quoted string in a header.
func headerText(text string) string {
	if len(text) > maxWarning {
		text = strings.ToValidUTF8(text[:maxWarning], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text))
}

// lastApplied returns the annotation in which kubectl apply finds what it has applied. It is made
// of the document, which is what was applied last, and is not stored: in the manifest it would
// be a copy of it, would change the pod, and would reveal Secrets.
func lastApplied(document map[string]any, name string, res *resource, namespace string) string {
	applied := maps.Clone(document)
	metadata, _ := applied["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	annotations = maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]any{}
	}
	delete(annotations, v1.LastAppliedConfigAnnotation)
	metadata["annotations"], metadata["name"] = annotations, name
	if res.namespaced {
		metadata["namespace"] = namespace
	}
	applied["metadata"] = metadata
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(applied); err != nil {
		return ""
	}
	return text.String()
}
