package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/podstead/podstead/httpapi/apistatus"
)

// maxCheckpoint is the time limit for one checkpoint.
const maxCheckpoint = time.Hour

// checkpoint writes the state of a running container to a file and responds with its path,
// as the kubelet's /checkpoint does.
func checkpoint(s *sessions, k Kubelet) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		timeout := time.Duration(0) // the runtime's default
		if text := r.URL.Query().Get("timeout"); text != "" {
			seconds, err := strconv.ParseUint(text, 10, 16)
			if err != nil {
				apistatus.Write(w, r, apistatus.New(http.StatusBadRequest, "timeout=%q: must be a number of seconds", text))
				return
			}
			timeout = time.Duration(seconds) * time.Second
		}
		pod, c, ok := s.running(w, r)
		if !ok {
			return
		}
		if err := os.MkdirAll(k.Checkpoints, 0o700); err != nil {
			apistatus.Write(w, r, apistatus.New(http.StatusInternalServerError, "failed to create the checkpoint directory: %v",
				err))
			return
		}
		// All parts are names of Kubernetes objects, which have no slash.
		file := filepath.Join(k.Checkpoints,
			fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar", pod.Name, pod.Namespace, c.name, time.Now().Format(time.RFC3339)))
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxCheckpoint)); err != nil {
			apistatus.Write(w, r, apistatus.New(http.StatusInternalServerError, "%v", err))
			return
		}
		switch err := k.Checkpoint(r.Context(), c.id, file, timeout); {
		case errors.Is(err, errors.ErrUnsupported):
			apistatus.Write(w, r, apistatus.New(http.StatusNotImplemented,
				"the container runtime does not support checkpoints: %v", err))
		case err != nil:
			_ = os.Remove(file) // may be incomplete
			apistatus.Write(w, r, apistatus.New(http.StatusInternalServerError,
				"failed to checkpoint container %q in pod %q: %v", c.name, pod.Name, err))
		default:
			writeJSON(w, map[string][]string{"items": {file}})
		}
	}
}
