package httpapi

import (
	"io"
	"net/http"
)

// maxBody in bytes bounds the body of a request. Most have none.
const maxBody = 1 << 20

// boundedBody is a body that may not be longer than maxBody.
type limitedBody struct {
	io.ReadCloser
	whole io.ReadCloser
}

func limitBody(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &limitedBody{ReadCloser: http.MaxBytesReader(w, r.Body, maxBody), whole: r.Body}
	}
}

// largeBody lifts the bound, for a handler that has its own or that streams.
// The time to read it is another matter: see http.ResponseController.
func allowLargeBody(r *http.Request) {
	if b, ok := r.Body.(*limitedBody); ok {
		r.Body = b.whole
	}
}
