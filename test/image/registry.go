package image

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/distribution/reference"
)

// Registry serves images to runtimes, which pull them over HTTP. The zero value is empty.
type Registry struct {
	// AcceptPushes lets clients push over HTTP. Set it before the registry serves.
	AcceptPushes bool

	mu      sync.Mutex
	tags    map[string]string // digest of the manifest by repository:tag
	blobs   map[string]blob   // by digest
	uploads map[string][]byte // by number
	begun   int               // uploads
}

type blob struct {
	mediaType string
	data      []byte
}

// Push makes an image available under ref, whatever host ref names.
func (r *Registry) Push(ref string, img Image) error {
	return r.push(ref, img.Descriptor(), img.Manifest(), img.Blobs())
}

func (r *Registry) push(ref string, root Descriptor, manifest []byte, blobs map[string][]byte) error {
	name, err := tagOf(ref)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.makeMaps()
	for digest, data := range blobs {
		r.blobs[digest] = blob{mediaType: "application/octet-stream", data: data}
	}
	r.blobs[root.Digest] = blob{mediaType: root.MediaType, data: manifest}
	r.tags[name] = root.Digest
	return nil
}

// Untag removes a tag; its blobs stay.
func (r *Registry) Untag(ref string) error {
	name, err := tagOf(ref)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tags, name)
	return nil
}

// tagOf returns repository:tag.
func tagOf(ref string) (string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", fmt.Errorf("%s: %w", ref, err)
	}
	tagged, ok := reference.TagNameOnly(named).(reference.Tagged)
	if !ok {
		return "", fmt.Errorf("%s has no tag", ref)
	}
	return reference.Path(named) + ":" + tagged.Tag(), nil
}

func (r *Registry) makeMaps() {
	if r.tags == nil {
		r.tags, r.blobs = map[string]string{}, map[string]blob{}
	}
}

// ServeHTTP implements the part of the distribution API that a pull needs. It ignores ranges,
// so that an interrupted download begins again.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		if r.AcceptPushes {
			r.serveUpload(w, q)
			return
		}
		http.Error(w, "images are pushed without HTTP", http.StatusMethodNotAllowed)
		return
	}
	if q.URL.Path == "/v2/" {
		return
	}
	b, digest := r.find(strings.TrimPrefix(q.URL.Path, "/v2/"))
	if digest == "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"the registry does not have it"}]}`)
		return
	}
	w.Header().Set("Content-Type", b.mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(b.data)))
	w.Header().Set("Docker-Content-Digest", digest)
	if q.Method == http.MethodGet {
		_, _ = w.Write(b.data) // the client may have left
	}
}

// find returns the manifest or blob at a path, and an empty digest if there is none.
func (r *Registry) find(path string) (b blob, digest string) {
	repository, digest, isManifest := strings.Cut(path, "/manifests/")
	if !isManifest {
		_, digest, _ = strings.Cut(path, "/blobs/")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if isManifest && !strings.Contains(digest, ":") {
		digest = r.tags[repository+":"+digest]
	}
	b, exists := r.blobs[digest]
	if !exists {
		return blob{}, ""
	}
	return b, digest
}
