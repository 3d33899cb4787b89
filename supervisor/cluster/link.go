package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// link logs when the API server stops answering and when it answers again, and
// nothing in between. One that is away is normal: a box may come up before its
// cluster, or hold the cluster's control plane itself.
type link struct {
	log *slog.Logger

	mu    sync.Mutex
	asked bool
	fault string
}

// tell takes how a request ended. A refusal is an answer: it is told by who asked.
func (l *link) tell(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	fault := ""
	var status apierrors.APIStatus
	switch {
	case err == nil:
	case errors.As(err, &status) && !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err):
	default:
		fault = err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before, first := l.fault, !l.asked
	l.fault, l.asked = fault, true
	switch {
	case fault == "" && (before != "" || first):
		l.log.Info("API server answers")
	case fault != "" && before == "":
		l.log.Warn("API server is not of use, it is tried again; pods of files and URLs run on", "error", fault)
	}
}
