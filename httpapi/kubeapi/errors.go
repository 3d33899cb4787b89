package kubeapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newStatus returns a failure as a Status of the Kubernetes API.
func newStatus(code int, reason metav1.StatusReason, format string, args ...any) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: fmt.Sprintf(format, args...),
	}
}

func writeStatus(w http.ResponseWriter, s *metav1.Status) { writeJSON(w, int(s.Code), s) }

func badRequest(format string, args ...any) *metav1.Status {
	return newStatus(http.StatusBadRequest, metav1.StatusReasonBadRequest, format, args...)
}

func notFound(r *resource, name string) *metav1.Status {
	s := newStatus(http.StatusNotFound, metav1.StatusReasonNotFound, "%s %q not found", r.name, name)
	s.Details = &metav1.StatusDetails{Name: name, Kind: r.name}
	return s
}

func tooOld() *metav1.Status {
	return newStatus(http.StatusGone, metav1.StatusReasonExpired, "too old resource version: the changes since then are no longer available; list again")
}

// writeJSON answers with v, which is encoded before the first byte is sent.
func writeJSON(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "failed to encode the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that has disconnected needs no answer
}
