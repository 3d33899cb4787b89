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
	mu    sync.Mutex
	tags  map[string]string // digest of the manifest by repository:tag
	blobs map[string]blob   // by digest
}

type blob struct {
	mediaType string
	data      []byte
}

// Push makes an image available under ref, whatever host ref names.
func (r *Registry) Push(ref string, img Image) error {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	tagged, ok := reference.TagNameOnly(named).(reference.Tagged)
	if !ok {
		return fmt.Errorf("%s has no tag", ref)
	}
	root := img.Descriptor()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tags == nil {
		r.tags, r.blobs = map[string]string{}, map[string]blob{}
	}
	for digest, data := range img.Blobs() {
		r.blobs[digest] = blob{mediaType: "application/octet-stream", data: data}
	}
	r.blobs[root.Digest] = blob{mediaType: root.MediaType, data: img.Manifest()}
	r.tags[reference.Path(named)+":"+tagged.Tag()] = root.Digest
	return nil
}

// ServeHTTP implements the part of the distribution API that a pull needs. It ignores ranges,
// so that an interrupted download begins again.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
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
