package httpapi

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podstead/podstead/httpapi/access"
)

func TestBodyLimit(t *testing.T) {
	read := func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &tooLarge):
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
	h := serveClasses([]Route{
		{"POST", "/small", access.Admin, read},
		{"POST", "/large", access.Admin, func(w http.ResponseWriter, r *http.Request) {
			allowLargeBody(r)
			read(w, r)
		}},
	}, access.All)
	for _, c := range []struct {
		path string
		size int
		want int
	}{{"/small", maxBody, 200}, {"/small", maxBody + 1, 413}, {"/large", maxBody + 1, 200}} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", c.path, strings.NewReader(strings.Repeat("x", c.size))))
		if w.Code != c.want {
			t.Errorf("POST of %d bytes to %s = %d %q, want %d", c.size, c.path, w.Code, w.Body, c.want)
		}
	}
}
