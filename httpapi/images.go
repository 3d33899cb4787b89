package httpapi

import (
	"context"
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
type ImageKeeper interface {
	Images(ctx context.Context) ([]Image, error)
	// PruneImages returns what was removed, would be with dryRun, or could
	// not be.
	PruneImages(ctx context.Context, dryRun bool) ([]Image, error)
}

func images(k ImageKeeper) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		list, err := k.Images(r.Context())
		answerImages(w, list, err)
	}
}

func pruneImages(k ImageKeeper) http.HandlerFunc {
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
