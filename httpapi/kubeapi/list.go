package kubeapi

import (
	"io"
	"net/http"
	"strconv"
)

// serveList answers with what is chosen, whole: limit is only a wish. The
// newest state is never older than any resource version that was asked for.
func serveList(w http.ResponseWriter, res *resource, f form, c choice) {
	all, version := res.cache.list()
	chosen := c.of(all)
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
