package httpapi

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/apistatus"
)

// pruneTimeout is the time limit for removing images, which takes long for many
// gigabytes.
const pruneTimeout = 30 * time.Minute

// drainTimeout limits how long the rest of an archive is read that cannot be loaded.
const drainTimeout = time.Minute

// ImageManager lists, pulls, loads and removes images.
type ImageManager interface {
	Images(ctx context.Context) ([]api.Image, error)
	// PruneImages removes unused images. It returns those that were removed, that could not
	// be removed (with Error), or with dryRun that would be removed.
	PruneImages(ctx context.Context, dryRun bool) ([]api.Image, error)
	// PullImage pulls an image. The error is an api.InvalidImageError if the request is wrong.
	PullImage(ctx context.Context, p api.Pull) (api.Image, error)
	// LoadImages loads the images of an archive; as is the name for an image without one.
	// The error is an api.InvalidImageError if the archive is wrong or the runtime cannot load
	// archives.
	LoadImages(ctx context.Context, archive io.Reader, as string) ([]api.Image, error)
	// ImageArchives returns the state of the directory of archives.
	ImageArchives() api.ImageArchives
}

func isInvalidImage(err error) bool {
	var bad *api.InvalidImageError
	return errors.As(err, &bad)
}

func images(m ImageManager) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		list, err := m.Images(r.Context())
		respondImages(w, r, list, err)
	}
}

func pruneImages(m ImageManager) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		dryRun := false
		if text := r.URL.Query().Get("dryRun"); text != "" {
			var err error
			if dryRun, err = strconv.ParseBool(text); err != nil {
				apistatus.Error(w, r, http.StatusBadRequest, "dryRun=%q: must be true or false", text)
				return
			}
		}
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pruneTimeout)); err != nil {
			apistatus.Error(w, r, http.StatusInternalServerError, "%v", err)
			return
		}
		list, err := m.PruneImages(r.Context(), dryRun)
		respondImages(w, r, list, err)
	}
}

func pullImage(m ImageManager) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		p := api.Pull{Image: q.Get("image"), Namespace: cmp.Or(q.Get("namespace"), "default"), Secrets: q["secret"]}
		if p.Image == "" {
			apistatus.Error(w, r, http.StatusBadRequest, "image: must not be empty")
			return
		}
		if err := clearDeadlines(w); err != nil {
			apistatus.Error(w, r, http.StatusInternalServerError, "%v", err)
			return
		}
		// The pull ends when the client disconnects.
		image, err := m.PullImage(r.Context(), p)
		switch {
		case isInvalidImage(err):
			apistatus.Error(w, r, http.StatusBadRequest, "%v", err)
		case err != nil:
			apistatus.Error(w, r, http.StatusBadGateway, "%v", err)
		default:
			writeJSON(w, image)
		}
	}
}

func loadImages(m ImageManager) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		allowLargeBody(r)
		if err := clearDeadlines(w); err != nil {
			apistatus.Error(w, r, http.StatusInternalServerError, "%v", err)
			return
		}
		body := &readTracker{Reader: r.Body}
		list, err := m.LoadImages(r.Context(), body, r.URL.Query().Get("name"))
		if body.read {
			// Many clients read no response before they have sent the whole body. A body
			// without an end is cut off.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTimeout))
			_, _ = io.Copy(io.Discard, body)
		}
		if isInvalidImage(err) {
			apistatus.Error(w, r, http.StatusBadRequest, "%v", err)
			return
		}
		respondImages(w, r, list, err)
	}
}

// readTracker records whether the body was read. The server sends "100 Continue" to a
// client that waits for it only when the body is read.
type readTracker struct {
	io.Reader
	read bool
}

func (b *readTracker) Read(p []byte) (int, error) {
	b.read = true
	return b.Reader.Read(p)
}

func respondImages(w http.ResponseWriter, r *http.Request, list []api.Image, err error) {
	if err != nil {
		// The runtime failed, not the daemon.
		apistatus.Error(w, r, http.StatusBadGateway, "%v", err)
		return
	}
	if list == nil {
		list = []api.Image{}
	}
	writeJSON(w, list)
}
