package kubeapi

import (
	"io"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serveList answers with what is chosen, whole: limit is only a wish. The
// newest state is never older than any resource version that was given.
func serveList(w http.ResponseWriter, r *http.Request, res *resource, f form, c selection) {
	all, version := res.cache.list()
	if refusal := checkListVersion(r, version, res.cache.versions.Last()); refusal != nil {
		writeStatus(w, refusal)
		return
	}
	chosen := c.filter(all)
	text := strconv.FormatUint(version, 10)
	if f.table {
		writeJSON(w, http.StatusOK, f.tableOf(res, chosen, text))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// The objects are encoded already, once for all readers. A reader that
	// went away needs no answer, so that the errors are nobody's.
	_, _ = io.WriteString(w, `{"kind":"`+res.kind+`List","apiVersion":"v1","metadata":{"resourceVersion":"`+text+`"},"items":[`)
	for i, e := range chosen {
		if i > 0 {
			_, _ = io.WriteString(w, ",")
		}
		_, _ = w.Write(e.bytes())
	}
	_, _ = io.WriteString(w, "]}\n")
}

// listable refuses a resource version that a list of the newest state does not
// answer for: an exact one of before the newest change, and one that was never
// given, which is of another life of this box.
func checkListVersion(r *http.Request, newest, last uint64) *metav1.Status {
	q := r.URL.Query()
	text, match := q.Get("resourceVersion"), metav1.ResourceVersionMatch(q.Get("resourceVersionMatch"))
	switch {
	case match != "" && match != metav1.ResourceVersionMatchExact && match != metav1.ResourceVersionMatchNotOlderThan:
		return invalid("resourceVersionMatch: is %q; must be Exact or NotOlderThan", match)
	case match != "" && text == "":
		return invalid("resourceVersionMatch: must not be set without resourceVersion")
	case match == metav1.ResourceVersionMatchExact && text == "0":
		return invalid("resourceVersionMatch: must not be Exact with the resourceVersion 0")
	case text == "":
		return nil
	}
	version, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil:
		return badRequest("resourceVersion: is %q; must be one that this API gave", text)
	case version > last, match == metav1.ResourceVersionMatchExact && version < newest:
		return tooOld()
	}
	return nil
}
