package streaming

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/internal/spdy"
)

var (
	// errClientGone ends a session whose client disconnected.
	errClientGone = errors.New("client disconnected")
	// errIdle ends a session without traffic.
	errIdle = errors.New("idle timeout exceeded")
	// errSessionEnded ends what still runs after a session has ended normally.
	errSessionEnded = errors.New("session ended")
)

// newStatus returns a failure as a Status of the Kubernetes API.
func newStatus(code int, reason metav1.StatusReason, format string, args ...any) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: fmt.Sprintf(format, args...),
	}
}

func internalError(format string, args ...any) *metav1.Status {
	return newStatus(http.StatusInternalServerError, metav1.StatusReasonInternalError, format, args...)
}

// writeStatus answers a request with a status.
func writeStatus(w http.ResponseWriter, st *metav1.Status) {
	body, err := json.Marshal(st)
	if err != nil {
		http.Error(w, st.Message, int(st.Code))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(st.Code))
	_, _ = w.Write(body) // a client that has disconnected needs no answer
}

// runtimeStatus parses the status that a runtime sent at the end of a session. err is
// the error of reading it.
func runtimeStatus(text []byte, err error) *metav1.Status {
	st := &metav1.Status{}
	switch {
	case len(text) == 0 && err != nil:
		return internalError("lost the connection to the container runtime: %v", err)
	case len(text) == 0:
		return internalError("the container runtime closed the session without a status")
	case json.Unmarshal(text, st) != nil || st.Status == "":
		return internalError("%s", strings.TrimSpace(string(text)))
	}
	return st
}

// statusJSON encodes the final status of a session for the error stream.
func statusJSON(st *metav1.Status) []byte {
	text, err := json.Marshal(st)
	if err != nil { // strings and numbers only
		return fmt.Appendf(nil, `{"status":"Failure","message":%q}`, err)
	}
	return text
}

// describeRuntimeError returns an error of the runtime's side as text for the user.
func describeRuntimeError(err error) string {
	var refused *spdy.UpgradeError
	if errors.As(err, &refused) {
		return "the container runtime answered " + refused.Error()
	}
	return err.Error()
}
