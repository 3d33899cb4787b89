package objects

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/internal/retry"
)

// Change is an event of a watch.
type Change struct {
	// Type is ADDED, MODIFIED or DELETED.
	Type   string
	Object *Object
}

// retryPeriod is the pause between two attempts to reach the daemon.
const retryPeriod = 500 * time.Millisecond

// errExpired reports that the watch cannot continue from its resource version.
var errExpired = errors.New("the resource version is too old")

// handlerError is an error of the handler of changes; it ends the watch.
type handlerError struct{ error }

func (e *handlerError) Unwrap() error { return e.error }

// Watch passes each change after a list to handle, until ctx ends or handle returns an
// error. It survives a restart of the daemon: it calls notify when the daemon stops
// responding and when it responds again, and passes what changed in between as changes.
func (q Query) Watch(ctx context.Context, c *client.Client, from *List, handle func(Change) error,
	notify func(string)) error {
	w := watcher{query: q, client: c, known: map[string]*Object{}, version: from.version, handle: handle, notify: notify}
	for _, o := range from.Objects {
		w.known[o.Key()] = o
	}
	return w.run(ctx)
}

// watcher is one invocation of Watch.
type watcher struct {
	query  Query
	client *client.Client
	handle func(Change) error
	notify func(string)

	// known are the objects as of the last change, by key.
	known map[string]*Object
	// version is the resource version to continue from.
	version string
	// unreachable reports that notify has been called for an unresponsive daemon.
	unreachable bool
}

func (w *watcher) run(ctx context.Context) error {
	expired := false
	for {
		var err error
		if expired {
			if err = w.relist(ctx); err == nil {
				expired = false
			}
		} else {
			err = w.watch(ctx)
			expired = errors.Is(err, errExpired)
		}
		var handling *handlerError
		switch {
		case errors.As(err, &handling):
			return handling.error
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil || expired && errors.Is(err, errExpired):
			continue
		case errors.Is(err, io.ErrUnexpectedEOF):
		case !client.IsUnreachable(err):
			return err
		case !w.unreachable:
			w.unreachable = true
			w.notify("daemon not responding, retrying (press Ctrl-C to stop)")
		}
		if !retry.Sleep(ctx, retryPeriod) {
			return ctx.Err()
		}
	}
}

// responded notes that the daemon responds.
func (w *watcher) responded() {
	if w.unreachable {
		w.notify("daemon responding again")
	}
	w.unreachable = false
}

// apply records a change and passes it on, unless only the resource version changed.
func (w *watcher) apply(ch Change) error {
	key := ch.Object.Key()
	before := w.known[key]
	if ch.Type == "DELETED" {
		delete(w.known, key)
	} else {
		w.known[key] = ch.Object
	}
	if ch.Type == "MODIFIED" && before != nil && before.equalIgnoringVersion(ch.Object) {
		return nil
	}
	if err := w.handle(ch); err != nil {
		return &handlerError{err}
	}
	return nil
}

// relist lists the objects again and applies the differences from the known ones.
func (w *watcher) relist(ctx context.Context) error {
	l, err := w.query.List(ctx, w.client)
	if err != nil {
		return err
	}
	w.responded()
	listed := map[string]bool{}
	var changes []Change
	for _, o := range l.Objects {
		listed[o.Key()] = true
		kind, before := "MODIFIED", w.known[o.Key()]
		if before != nil && before.UID != o.UID {
			changes = append(changes, Change{"DELETED", before})
			before = nil
		}
		if before == nil {
			kind = "ADDED"
		}
		changes = append(changes, Change{kind, o})
	}
	for key, o := range w.known {
		if !listed[key] {
			changes = append(changes, Change{"DELETED", o})
		}
	}
	for _, ch := range changes {
		if err := w.apply(ch); err != nil {
			return err
		}
	}
	w.version = l.version
	return nil
}

// watch reads one watch request until the daemon ends it.
func (w *watcher) watch(ctx context.Context) error {
	q := w.query
	body, err := w.client.Request(ctx, http.MethodGet,
		q.path(url.Values{"watch": {"true"}, "resourceVersion": {w.version}}), q.accept())
	if err != nil {
		var status *client.StatusError
		if errors.As(err, &status) && status.Code == http.StatusGone {
			return errExpired
		}
		return err
	}
	defer body.Close()
	w.responded()
	for d := json.NewDecoder(body); ; {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		if err := d.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) {
				return nil // the daemon's time limit of a watch
			}
			return io.ErrUnexpectedEOF
		}
		switch e.Type {
		case "ERROR":
			return errExpired
		case "ADDED", "MODIFIED", "DELETED":
		default:
			continue
		}
		changed, err := parseChanged(e.Object, q.accept() != "")
		if err != nil {
			return err
		}
		if err := q.prepare(ctx, w.client); err != nil {
			return err
		}
		for _, o := range changed {
			w.version = o.ResourceVersion
			if !q.matches(o) {
				continue
			}
			if err := w.apply(Change{e.Type, o}); err != nil {
				return err
			}
		}
	}
}

// parseChanged parses the object of a watch event, or the rows of its table.
func parseChanged(raw json.RawMessage, table bool) ([]*Object, error) {
	if table {
		l, err := parseList(raw)
		if err != nil {
			return nil, err
		}
		return l.Objects, nil
	}
	o, err := NewObject(raw)
	return []*Object{o}, err
}
