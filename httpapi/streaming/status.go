package streaming

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/httpapi/apistatus"
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

func internalError(format string, args ...any) *metav1.Status {
	return apistatus.New(http.StatusInternalServerError, format, args...)
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

// statusText returns what the error stream of a client has at the end: a Status as JSON from v4 on, and
// before it the message of a failure, nothing for success.
func statusText(protocol string, st *metav1.Status) []byte {
	switch {
	case slices.Contains([]string{protocolV4, protocolV5, protocolBase64V4}, protocol):
		return statusJSON(st)
	case st.Status == metav1.StatusSuccess:
		return nil
	}
	return []byte(st.Message)
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
