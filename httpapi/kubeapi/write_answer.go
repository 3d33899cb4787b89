package kubeapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	"github.com/podstead/podstead/internal/objectpatch"
	"github.com/podstead/podstead/internal/objectwrite"
)

// encode returns a written object that the API does not show yet. before is what it shows.
func (a *API) encode(res *resource, written objectwrite.Written, before *entry) ([]byte, error) {
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
		if live, err := objectpatch.Decode(before.bytes()); err == nil && metadata["uid"] == string(before.object.GetUID()) &&
			live["status"] != nil {
			object["status"] = live["status"]
		}
	}
	if res.kind == "Pod" && object["status"] == nil {
		object["status"] = map[string]any{"phase": "Pending"}
	}
	object["metadata"], object["kind"], object["apiVersion"] = metadata, res.kind, res.apiVersion()
	return json.Marshal(object)
}

// sendWritten serves a write with the object and the warnings about it.
func sendWritten(w http.ResponseWriter, code int, written objectwrite.Written, body []byte) {
	for i, text := range written.Warnings {
		if i == maxWarnings {
			break
		}
		w.Header().Add("Warning", `299 - "`+headerText(text)+`"`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that has disconnected needs no response
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
