package kubeapi

import (
	"io"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/httpapi/apistatus"
)

// serveList serves all selected objects at once and ignores limit, as the API allows. The
// current state is never older than a resource version that was returned before.
func serveList(w http.ResponseWriter, r *http.Request, res *resource, f form, c selection) {
	all, version := res.cache.list()
	if failure := checkListVersion(r, version, res.cache.versions.Last()); failure != nil {
		apistatus.Write(w, r, failure)
		return
	}
	selected := c.filter(all)
	text := strconv.FormatUint(version, 10)
	if f.table {
		writeJSON(w, http.StatusOK, f.tableOf(res, selected, text))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// The objects are already encoded, once for all clients. Write errors are ignored: a
	// client that has disconnected needs no response.
	_, _ = io.WriteString(w, `{"kind":"`+res.kind+`List","apiVersion":"`+res.apiVersion()+
		`","metadata":{"resourceVersion":"`+text+`"},"items":[`)
	for i, e := range selected {
		if i > 0 {
			_, _ = io.WriteString(w, ",")
		}
		_, _ = w.Write(c.bytes(e))
	}
	_, _ = io.WriteString(w, "]}\n")
}

// checkListVersion rejects a resource version for which the current state is no valid
// answer: an exact one before the latest change, and one that was never returned, which
// comes from another installation of this node.
func checkListVersion(r *http.Request, newest, last uint64) *metav1.Status {
	q := r.URL.Query()
	text, match := q.Get("resourceVersion"), metav1.ResourceVersionMatch(q.Get("resourceVersionMatch"))
	switch {
	case match != "" && match != metav1.ResourceVersionMatchExact && match != metav1.ResourceVersionMatchNotOlderThan:
		return invalidMatch("=%q: must be Exact or NotOlderThan", match)
	case match != "" && text == "":
		return invalidMatch(": must not be set without resourceVersion")
	case match == metav1.ResourceVersionMatchExact && text == "0":
		return invalidMatch(": must not be Exact with the resourceVersion 0")
	case text == "":
		return nil
	}
	version, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil:
		return badRequest("resourceVersion=%q: must be one that this API returned", text)
	case version > last, match == metav1.ResourceVersionMatchExact && version < newest:
		return tooOld()
	}
	return nil
}
