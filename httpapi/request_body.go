package httpapi

import (
	"io"
	"net/http"
)

// maxBody is the maximum size of a request body in bytes. Most requests have none.
const maxBody = 1 << 20

// limitedBody is a request body of at most maxBody bytes.
type limitedBody struct {
	io.ReadCloser
	unlimited io.ReadCloser
}

func limitBody(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &limitedBody{ReadCloser: http.MaxBytesReader(w, r.Body, maxBody), unlimited: r.Body}
	}
}

// allowLargeBody removes the limit, for a handler that has its own or that streams. It
// does not change the read deadline; see clearDeadlines.
func allowLargeBody(r *http.Request) {
	if b, ok := r.Body.(*limitedBody); ok {
		r.Body = b.unlimited
	}
}
