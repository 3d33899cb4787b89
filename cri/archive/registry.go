package archive

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/distribution/reference"
)

// TokenHeader is the header with which a request proves that it may read.
const TokenHeader = "X-Podstead-Load"

// Registry is a read-only registry of images for clients that know its token. It
// is for a runtime on the same machine.
type Registry struct {
	// Token is the value of TokenHeader.
	Token string
	roots map[string]*Image // by full name
	blobs map[string]blob
}

// NewRegistry creates a registry of images.
func NewRegistry(images []*Image) *Registry {
	r := &Registry{Token: rand.Text(), roots: map[string]*Image{}, blobs: map[string]blob{}}
	for _, i := range images {
		for _, name := range i.Names {
			r.roots[name] = i
		}
		for digest, b := range i.blobs {
			r.blobs[digest] = b
		}
	}
	return r
}

// ServeHTTP implements the part of the distribution API that a pull needs.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if subtle.ConstantTimeCompare([]byte(q.Header.Get(TokenHeader)), []byte(r.Token)) != 1 {
		http.Error(w, "only the container runtime may use this registry", http.StatusForbidden)
		return
	}
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		http.Error(w, "this registry is read-only", http.StatusMethodNotAllowed)
		return
	}
	path, ok := strings.CutPrefix(q.URL.Path, "/v2/")
	if !ok {
		http.NotFound(w, q)
		return
	}
	if repository, ref, ok := cutLast(path, "/manifests/"); ok {
		if !strings.Contains(ref, ":") {
			ref = r.digest(q.URL.Query().Get("ns"), repository, ref)
		}
		r.serve(w, q, ref)
		return
	}
	if _, digest, ok := cutLast(path, "/blobs/"); ok {
		r.serve(w, q, digest)
		return
	}
	if path != "" {
		http.NotFound(w, q)
	}
}

func cutLast(text, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return "", "", false
	}
	return text[:i], text[i+len(sep):], true
}

// digest returns that of a tag's manifest, empty if there is none. host is empty
// if the runtime does not say for which it asks.
func (r *Registry) digest(host, repository, tag string) string {
	for name, i := range r.roots {
		named, err := reference.ParseNormalizedNamed(name)
		if err != nil {
			continue
		}
		tagged, ok := named.(reference.Tagged)
		if ok && tagged.Tag() == tag && reference.Path(named) == repository &&
			(host == "" || host == reference.Domain(named)) {
			return i.root.Digest
		}
	}
	return ""
}

func (r *Registry) serve(w http.ResponseWriter, q *http.Request, digest string) {
	b, ok := r.blobs[digest]
	if !ok {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"errors":[{"code":"NAME_UNKNOWN","message":"not in the archive"}]}`)
		return
	}
	w.Header().Set("Content-Type", b.mediaType)
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("ETag", `"`+digest+`"`)
	http.ServeContent(w, q, "", time.Time{}, b.open())
}
