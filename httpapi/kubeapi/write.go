package kubeapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/apistatus"
	"github.com/podstead/podstead/internal/objectwrite"
)

const (
	// maxWrites is the maximum number of writes at once, of which they are made one after the
	// other. localWrites are in addition, for callers on the socket.
	maxWrites, localWrites = 8, 2
	// maxReceives is the maximum number of writes whose bodies are being received at once, each for at
	// most receiveTimeout. They take no slot of a write yet, so that slow clients block no others.
	maxReceives, localReceives = 64, 8
	receiveTimeout             = 10 * time.Second
	// shownTimeout limits the wait for a new pod to appear in the API.
	shownTimeout = 3 * time.Second
	// maxWarnings and maxWarning are the maximum number and length of the warnings of a response.
	maxWarnings, maxWarning = 20, 1024
)

// write serves a request that changes an object.
func (a *API) write(w http.ResponseWriter, r *http.Request, res *resource) {
	if !a.receive(w, r) {
		return
	}
	release := acquire(r, a.writes, a.localWrites)
	if release == nil {
		tooMany(w, r, "%d writes are in progress; try again", maxWrites)
		return
	}
	defer release()
	if res.adminView != nil {
		res = res.adminView // the class Write includes the data of Secrets
	}
	var err error
	switch named := r.PathValue("name") != ""; {
	case r.Method == http.MethodPost && !named:
		err = a.create(w, r, res)
	case r.Method == http.MethodPut && named:
		err = a.replace(w, r, res)
	case r.Method == http.MethodPatch && named:
		err = a.patch(w, r, res)
	case r.Method == http.MethodDelete && named:
		err = a.remove(w, r, res)
	case r.Method == http.MethodDelete:
		err = fail(http.StatusMethodNotAllowed, "%s are deleted one by one; name the object", res.name)
	default:
		err = fail(http.StatusMethodNotAllowed, "%s does not support %s", r.URL.Path, r.Method)
	}
	if err != nil {
		writeFailure(w, r, err)
	}
}

// writeFailure serves a write with its error.
func writeFailure(w http.ResponseWriter, r *http.Request, err error) {
	apistatus.Write(w, r, statusOf(err))
}

func tooMany(w http.ResponseWriter, r *http.Request, format string, args ...any) {
	w.Header().Set("Retry-After", "1")
	apistatus.Write(w, r, apistatus.New(http.StatusTooManyRequests, format, args...))
}

// receive replaces the body of a request with its content. It serves a request whose body does
// not arrive, and returns false.
func (a *API) receive(w http.ResponseWriter, r *http.Request) bool {
	release := acquire(r, a.receives, a.localReceives)
	if release == nil {
		tooMany(w, r, "the bodies of %d writes are being received; try again", maxReceives)
		return false
	}
	defer release()
	control := http.NewResponseController(w)
	// A writer without deadlines is one of a test.
	_ = control.SetReadDeadline(time.Now().Add(receiveTimeout))
	body, err := readBody(r)
	if err != nil { // the deadline stays: the server reads the rest of the body before it responds
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fail(http.StatusRequestTimeout, "the body did not arrive within %v", receiveTimeout)
		}
		writeFailure(w, r, err)
		return false
	}
	// Without a deadline the server still notices that the client has disconnected.
	_ = control.SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(bytes.NewReader(body))
	return true
}

// acquire takes one of the slots, of which callers on the socket have some of their own; nil if none
// is free.
func acquire(r *http.Request, slots, local chan struct{}) (release func()) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }
	default:
	}
	if access.CallerFrom(r.Context()).Local {
		select {
		case local <- struct{}{}:
			return func() { <-local }
		default:
		}
	}
	return nil
}

func writeOptions(r *http.Request, dryRun []string) (objectwrite.Options, error) {
	o := objectwrite.Options{User: access.CallerFrom(r.Context()).User}
	var err error
	o.DryRun, err = isDryRun(dryRun)
	return o, err
}
