package httpapi

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// pruneTime bounds an answer to a request that removes images: one of many
// gigabytes takes a while.
const pruneTime = 30 * time.Minute

// Image is an image of the runtime.
type Image struct {
	// Name is one of its references, or its ID if it has none.
	Name string   `json:"name"`
	ID   string   `json:"id"`
	Tags []string `json:"tags,omitempty"`
	// Size in bytes.
	Size uint64 `json:"size"`
	// State tells why it stays: foreign, pinned, sandbox, used or wanted;
	// unused if nothing keeps it.
	State string `json:"state"`
	// Pulled is when this podstead pulled it, LastUsed when a container of it
	// had it last.
	Pulled   time.Time `json:"pulled,omitzero"`
	LastUsed time.Time `json:"lastUsed,omitzero"`
	// Error is why it could not be removed.
	Error string `json:"error,omitempty"`
}

// ImageKeeper tells of images and removes those that nothing keeps.
type ImageManager interface {
	Images(ctx context.Context) ([]Image, error)
	// PruneImages returns what was removed, would be with dryRun, or could
	// not be.
	PruneImages(ctx context.Context, dryRun bool) ([]Image, error)
	// PullImage pulls an image. A BadImageError is the caller's fault.
	PullImage(ctx context.Context, p Pull) (Image, error)
	// LoadImages loads the images of an archive; as is the name of one that has
	// none. A BadImageError is the archive's fault, or that of the kind of runtime.
	LoadImages(ctx context.Context, archive io.Reader, as string) ([]Image, error)
}

// Pull is an image to be pulled.
type Pull struct {
	// Image is its reference.
	Image string
	// Secrets are names of Secrets with logins, in Namespace.
	Namespace string
	Secrets   []string
}

// BadImageError says that what was asked for can never be had.
type InvalidImageError struct{ Err error }

// Error is the text of Err.
func (e *InvalidImageError) Error() string { return e.Err.Error() }

// Unwrap is Err.
func (e *InvalidImageError) Unwrap() error { return e.Err }

func isInvalidImage(err error) bool {
	var bad *InvalidImageError
	return errors.As(err, &bad)
}

func images(k ImageManager) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		list, err := k.Images(r.Context())
		answerImages(w, list, err)
	}
}

func pruneImages(k ImageManager) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		dryRun := false
		if text := r.URL.Query().Get("dryRun"); text != "" {
			var err error
			if dryRun, err = strconv.ParseBool(text); err != nil {
				http.Error(w, "dryRun="+strconv.Quote(text)+": must be true or false", http.StatusBadRequest)
				return
			}
		}
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pruneTime)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		list, err := k.PruneImages(r.Context(), dryRun)
		answerImages(w, list, err)
	}
}

func pullImage(k ImageManager) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		p := Pull{Image: q.Get("image"), Namespace: cmp.Or(q.Get("namespace"), "default"), Secrets: q["secret"]}
		if p.Image == "" {
			http.Error(w, "image=: name the image to pull", http.StatusBadRequest)
			return
		}
		if err := clearDeadlines(w); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		// The pull ends when the caller goes.
		image, err := k.PullImage(r.Context(), p)
		switch {
		case isInvalidImage(err):
			http.Error(w, err.Error(), http.StatusBadRequest)
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadGateway)
		default:
			writeJSON(w, image)
		}
	}
}

func loadImages(k ImageManager) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		allowLargeBody(r)
		if err := clearDeadlines(w); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		body := &readTracker{Reader: r.Body}
		list, err := k.LoadImages(r.Context(), body, r.URL.Query().Get("name"))
		if body.read {
			// Who sends hears nothing before all is sent.
			_, _ = io.Copy(io.Discard, body)
		}
		if isInvalidImage(err) {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answerImages(w, list, err)
	}
}

// begun notes that it was read from: only then is a caller that waits for leave
// to send given it.
type readTracker struct {
	io.Reader
	read bool
}

func (b *readTracker) Read(p []byte) (int, error) {
	b.read = true
	return b.Reader.Read(p)
}

// noDeadlines takes the server's limits from a request that may last. Without a
// read deadline the server still notices that the client went.
func clearDeadlines(w http.ResponseWriter) error {
	c := http.NewResponseController(w)
	return errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{}))
}

func answerImages(w http.ResponseWriter, list []Image, err error) {
	if err != nil {
		// The runtime's fault; the daemon is well.
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if list == nil {
		list = []Image{}
	}
	writeJSON(w, list)
}
