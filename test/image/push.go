package image

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// maxPush limits a pushed blob or manifest, in bytes.
const maxPush = 256 << 20

// serveUpload implements what clients that push need: an upload is begun, extended, and ended
// with its digest; a manifest is put under a tag or digest.
func (r *Registry) serveUpload(w http.ResponseWriter, q *http.Request) {
	path := strings.TrimPrefix(q.URL.Path, "/v2/")
	data, err := io.ReadAll(io.LimitReader(q.Body, maxPush))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if repository, tag, ok := strings.Cut(path, "/manifests/"); ok && q.Method == http.MethodPut {
		r.putManifest(w, repository, tag, blob{q.Header.Get("Content-Type"), data})
		return
	}
	repository, id, ok := strings.Cut(path, "/blobs/uploads/")
	if !ok {
		http.Error(w, "unsupported", http.StatusMethodNotAllowed)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.uploads == nil {
		r.uploads = map[string][]byte{}
	}
	if id == "" {
		r.begun++
		id = strconv.Itoa(r.begun)
	}
	r.uploads[id] = append(r.uploads[id], data...)
	digest := q.URL.Query().Get("digest")
	w.Header().Set("Location", (&url.URL{Path: "/v2/" + repository + "/blobs/uploads/" + id}).String())
	if digest == "" || q.Method == http.MethodPatch {
		w.Header().Set("Range", "0-"+strconv.Itoa(max(len(r.uploads[id])-1, 0)))
		w.WriteHeader(http.StatusAccepted)
		return
	}
	content := r.uploads[id]
	delete(r.uploads, id)
	if Digest(content) != digest {
		http.Error(w, "the digest is another", http.StatusBadRequest)
		return
	}
	r.makeMaps()
	r.blobs[digest] = blob{"application/octet-stream", content}
	w.Header().Set("Docker-Content-Digest", digest)
	w.WriteHeader(http.StatusCreated)
}

func (r *Registry) putManifest(w http.ResponseWriter, repository, tag string, manifest blob) {
	digest := Digest(manifest.data)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.makeMaps()
	r.blobs[digest] = manifest
	if !strings.Contains(tag, ":") {
		r.tags[repository+":"+tag] = digest
	}
	w.Header().Set("Docker-Content-Digest", digest)
	w.WriteHeader(http.StatusCreated)
}
