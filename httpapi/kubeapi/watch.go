package kubeapi

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podstead/podstead/httpapi/apistatus"
)

const (
	// bookmarkInterval is the interval of bookmarks in a watch that requests them.
	bookmarkInterval = time.Minute
	// writeTimeout is the limit for a client to read one batch of events. A slow client
	// blocks only its own watch.
	writeTimeout = 15 * time.Second
	// maxWatch is the maximum duration of a watch.
	maxWatch = 24 * time.Hour
)

// watchRequest are the parameters of a watch, without its selection.
type watchRequest struct {
	// from is the version after which the watch starts; fresh starts it with the existing
	// objects.
	from  uint64
	fresh bool
	// bookmarks requests bookmarks, initial one after the existing objects.
	bookmarks, initial bool
	timeout            time.Duration
}

func watchRequestOf(r *http.Request) (watchRequest, *metav1.Status) {
	q := r.URL.Query()
	var w watchRequest
	var failure *metav1.Status
	if w.bookmarks, failure = boolParam(r, "allowWatchBookmarks"); failure != nil {
		return w, failure
	}
	if w.initial, failure = boolParam(r, "sendInitialEvents"); failure != nil {
		return w, failure
	}
	match := metav1.ResourceVersionMatch(q.Get("resourceVersionMatch"))
	switch {
	case q.Has("sendInitialEvents") && match != metav1.ResourceVersionMatchNotOlderThan:
		return w, invalidMatch("=%q: must be NotOlderThan with sendInitialEvents", match)
	case !q.Has("sendInitialEvents") && match != "":
		return w, invalidMatch(": must not be set for a watch without sendInitialEvents")
	}
	switch version := q.Get("resourceVersion"); version {
	case "", "0":
		// Without a version a watch starts with the existing objects, unless the client
		// disables this.
		w.fresh = !q.Has("sendInitialEvents") || w.initial
	default:
		n, err := strconv.ParseUint(version, 10, 64)
		if err != nil {
			return w, badRequest("resourceVersion=%q: must be one that this API returned", version)
		}
		w.from, w.fresh = n, w.initial
	}
	w.timeout = maxWatch
	if text := q.Get("timeoutSeconds"); text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return w, badRequest("timeoutSeconds=%q: must be a number of seconds", text)
		}
		if n > 0 {
			w.timeout = min(w.timeout, time.Duration(n)*time.Second)
		}
	}
	return w, nil
}

// invalidMatch is the failure of a request whose resourceVersionMatch is not valid.
func invalidMatch(format string, args ...any) *metav1.Status {
	s := apistatus.New(http.StatusUnprocessableEntity, "resourceVersionMatch"+format, args...)
	return apistatus.WithCause(s, metav1.CauseTypeFieldValueInvalid, "resourceVersionMatch")
}

// serveWatch sends each change of the selected objects until the client disconnects, the
// watch times out or the daemon shuts down. There is no queue per client: for one that is
// too slow, older changes are no longer available, and it lists again.
func serveWatch(w http.ResponseWriter, r *http.Request, res *resource, f form, c selection) {
	req, failure := watchRequestOf(r)
	if failure != nil {
		apistatus.Write(w, r, failure)
		return
	}
	changed, remove := res.cache.addWatcher()
	defer remove()
	all, at := res.cache.snapshot()
	if !req.fresh {
		all = nil
		if req.from != 0 {
			at = req.from
		}
	}
	if _, _, err := res.cache.changesSince(at); err != nil {
		apistatus.Write(w, r, tooOld())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), req.timeout)
	defer cancel()
	s := newStream(w, res, f)
	s.selected = c
	for _, e := range c.filter(all) {
		s.send(watch.Added, e)
	}
	if req.initial && req.bookmarks {
		s.bookmark(at, true)
	}
	s.follow(ctx, c, at, changed, req.bookmarks)
}

// stream sends the events of one watch.
type stream struct {
	res  *resource
	form form
	// selected is what the client selects.
	selected selection
	out      *bufio.Writer
	http     *http.ResponseController
	err      error
}

func newStream(w http.ResponseWriter, res *resource, f form) *stream {
	w.Header().Set("Content-Type", "application/json")
	s := &stream{res: res, form: f, out: bufio.NewWriterSize(w, 1024), http: http.NewResponseController(w)}
	// The server's deadlines are made for short responses.
	s.err = errors.Join(s.http.SetReadDeadline(time.Time{}),
		s.http.SetWriteDeadline(time.Now().Add(cmp.Or(res.writeTimeout, writeTimeout))))
	w.WriteHeader(http.StatusOK)
	return s
}

// follow sends the changes after a version, and further ones whenever changed receives.
func (s *stream) follow(ctx context.Context, c selection, at uint64, changed <-chan struct{}, bookmarks bool) {
	timer := time.NewTimer(bookmarkInterval)
	defer timer.Stop()
	due := timer.C
	if !bookmarks {
		due = nil
	}
	for {
		changes, next, err := s.res.cache.changesSince(at)
		if errors.Is(err, errTooOld) {
			s.write(watch.Error, mustJSON(tooOld()))
			s.flush()
			return
		}
		at = next
		for _, ch := range changes {
			s.change(c, ch)
		}
		if s.flush(); s.err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-due:
			s.bookmark(at, false)
			timer.Reset(bookmarkInterval)
		}
	}
}

// change sends a change as seen through the selection: an object that is not selected any
// more is deleted for the client.
func (s *stream) change(c selection, ch change) {
	now, previously := c.matches(ch.object) && ch.kind != watch.Deleted, c.matches(ch.previous)
	switch {
	case now && previously:
		s.send(watch.Modified, ch.object)
	case now:
		s.send(watch.Added, ch.object)
	case previously:
		s.send(watch.Deleted, ch.object)
	}
}

func (s *stream) send(kind watch.EventType, e *entry) {
	if s.form.table {
		s.write(kind, mustJSON(s.form.tableOf(s.res, []*entry{e}, e.object.GetResourceVersion())))
		return
	}
	s.write(kind, s.selected.bytes(e))
}

// bookmark sends the version up to which all changes were sent; initial marks the end of
// the existing objects.
func (s *stream) bookmark(version uint64, initial bool) {
	meta := metav1.ObjectMeta{ResourceVersion: strconv.FormatUint(version, 10)}
	if initial {
		meta.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	if s.form.table {
		f := form{table: true, include: metav1.IncludeNone}
		t := f.tableOf(s.res, nil, meta.ResourceVersion)
		if initial {
			// A table has no annotations, but the object of its row has.
			t.Rows = []metav1.TableRow{{Cells: []any{}}}
			t.Rows[0].Object.Raw = mustJSON(
				&metav1.PartialObjectMetadata{
					TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}, ObjectMeta: meta})
		}
		s.write(watch.Bookmark, mustJSON(t))
		return
	}
	s.write(watch.Bookmark,
		mustJSON(&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: s.res.kind, APIVersion: s.res.apiVersion()},
			ObjectMeta: meta}))
}

func (s *stream) write(kind watch.EventType, object []byte) {
	if s.err != nil {
		return
	}
	if s.err = s.http.SetWriteDeadline(time.Now().Add(cmp.Or(s.res.writeTimeout, writeTimeout))); s.err != nil {
		return
	}
	for _, part := range [][]byte{[]byte(`{"type":"` + string(kind) + `","object":`), object, []byte("}\n")} {
		if _, s.err = s.out.Write(part); s.err != nil {
			return
		}
	}
}

func (s *stream) flush() {
	if s.err == nil {
		s.err = s.out.Flush()
	}
	if s.err == nil {
		s.err = s.http.Flush()
	}
	if s.err == nil {
		// HTTP/2 ends a stream at its deadline even if nothing is being written.
		s.err = s.http.SetWriteDeadline(time.Time{})
	}
}

// mustJSON encodes a type of the API, which cannot fail.
func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return []byte("{}")
	}
	return data
}
