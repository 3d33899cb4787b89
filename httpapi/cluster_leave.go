package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/apistatus"
)

// ClusterMember removes this node from its cluster.
type ClusterMember interface {
	// Leave returns instructions for what only an administrator of the cluster can
	// remove, empty if nothing is left.
	Leave(ctx context.Context) (leftovers string, err error)
}

// leaveCluster responds after the node has left the cluster, or has failed to within
// ?timeout.
func leaveCluster(member ClusterMember) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if member == nil {
			apistatus.Error(w, r, http.StatusConflict, "this node has not joined a cluster")
			return
		}
		timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
		if err != nil || timeout <= 0 {
			apistatus.Error(w, r, http.StatusBadRequest, "timeout: must be a positive duration such as 5m")
			return
		}
		if err := clearDeadlines(w); err != nil {
			apistatus.Error(w, r, http.StatusInternalServerError, "%v", err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		leftovers, err := member.Leave(ctx)
		if err != nil {
			apistatus.Error(w, r, http.StatusConflict, "%v", err)
			return
		}
		writeJSON(w, api.LeaveResult{Leftovers: leftovers})
	}
}
