package kubeapi

import (
	"encoding/json"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/httpapi/apistatus"
)

func badRequest(format string, args ...any) *metav1.Status {
	return apistatus.New(http.StatusBadRequest, format, args...)
}

// notFound returns the error of an object that does not exist.
func (a *API) notFound(r *resource, namespace, name string) *metav1.Status {
	s := apistatus.New(http.StatusNotFound, "%s %q not found%s", r.name, name, a.similar(r, namespace, name))
	s.Details = &metav1.StatusDetails{Name: name, Kind: r.name, Group: r.group}
	return s
}

func tooOld() *metav1.Status {
	return apistatus.New(http.StatusGone,
		"too old resource version: the changes since then are no longer available; list again")
}

// writeJSON responds with v, which is encoded before the first byte is sent.
func writeJSON(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "failed to encode the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that has disconnected needs no response
}
