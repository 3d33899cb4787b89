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
	// errGone ends a session whose client left.
	errGone = errors.New("the client left")
	// errIdle ends a session in which nothing moved.
	errIdle = errors.New("nothing moved for too long")
	// errOver ends what still runs when a session has ended well.
	errOver = errors.New("the session is over")
	// errAnswered says that the client was told already.
	errAnswered = errors.New("answered")
)

// failure is an error in the form that clients of the API know.
func failure(code int, reason metav1.StatusReason, format string, args ...any) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: fmt.Sprintf(format, args...),
	}
}

func internal(format string, args ...any) *metav1.Status {
	return failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, format, args...)
}

// fail answers with a status.
func fail(w http.ResponseWriter, st *metav1.Status) {
	body, err := json.Marshal(st)
	if err != nil {
		http.Error(w, st.Message, int(st.Code))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(st.Code))
	_, _ = w.Write(body) // a client that went away needs no answer
}

// runtimeStatus is what a runtime told at the end of a session; err is why
// there may be nothing.
func runtimeStatus(text []byte, err error) *metav1.Status {
	st := &metav1.Status{}
	switch {
	case len(text) == 0 && err != nil:
		return internal("the connection to the container runtime broke: %v", err)
	case len(text) == 0:
		return internal("the container runtime ended the session without saying how it went")
	case json.Unmarshal(text, st) != nil || st.Status == "":
		return internal("%s", strings.TrimSpace(string(text)))
	}
	return st
}

// plain is an error of the runtime's side as text for people.
func plain(err error) string {
	var refused *spdy.Refusal
	if errors.As(err, &refused) {
		return "the container runtime answers " + refused.Error()
	}
	return err.Error()
}
