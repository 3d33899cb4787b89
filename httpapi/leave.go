package httpapi

import (
	"context"
	"net/http"
	"time"
)

// ClusterMember takes this box out of its cluster. It returns what only an
// administrator of the cluster can remove.
type ClusterMember interface {
	Leave(ctx context.Context) (remains string, err error)
}

// LeftCluster is the answer of a box that has left its cluster.
type LeaveResult struct {
	Leftovers string `json:"leftovers,omitempty"`
}

// leaveCluster answers when the box has left, or could not within ?timeout.
func leaveCluster(member ClusterMember) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if member == nil {
			http.Error(w, "this box has joined no cluster", http.StatusConflict)
			return
		}
		timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
		if err != nil || timeout <= 0 {
			http.Error(w, "timeout: want a duration such as 5m", http.StatusBadRequest)
			return
		}
		if err := clearDeadlines(w); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		remains, err := member.Leave(ctx)
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		writeJSON(w, LeaveResult{Leftovers: remains})
	}
}
