package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"
)

// change is one that a watch tells.
type change struct {
	// kind is ADDED, MODIFIED or DELETED.
	kind   string
	object *object
}

// retryPeriod is how often a daemon that does not answer is tried.
const retryPeriod = 500 * time.Millisecond

// errExpired says that the watch cannot go on from where it was.
var errExpired = errors.New("the resource version is too old")

// follow tells each change after a listing, until ctx ends or tell returns an
// error. It survives a restart of the daemon: say is told when it does not
// answer and when it answers again, and what changed meanwhile is told as
// changes.
func (q query) follow(ctx context.Context, c *client, from *listing, tell func(change) error, say func(string)) error {
	known := map[string]*object{}
	for _, o := range from.objects {
		known[o.key()] = o
	}
	note := func(ch change) error {
		before := known[ch.object.key()]
		if ch.kind == "DELETED" {
			delete(known, ch.object.key())
		} else {
			known[ch.object.key()] = ch.object
		}
		if ch.kind == "MODIFIED" && before != nil && before.same(ch.object) {
			return nil
		}
		return tell(ch)
	}
	version, away, stale := from.version, false, false
	back := func() {
		if away {
			say("podstead answers again")
		}
		away = false
	}
	for {
		var told, err error
		if stale {
			var at string
			if at, told, err = q.catchUp(ctx, c, known, back, note); told == nil && err == nil {
				version, stale = at, false
			}
		} else {
			version, told, err = q.watch(ctx, c, version, back, note)
			stale = errors.Is(err, errExpired)
		}
		switch {
		case told != nil:
			return told
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil || stale && errors.Is(err, errExpired):
			continue
		case errors.Is(err, io.ErrUnexpectedEOF):
		case Code(err) != ExitNoDaemon:
			return err
		case !away:
			away = true
			say("podstead does not answer; waiting until it does (Ctrl-C to leave)")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryPeriod):
		}
	}
}

// catchUp lists anew and tells what is not as it is known; opened is told that
// the daemon answers. told is the error of note.
func (q query) catchUp(ctx context.Context, c *client, known map[string]*object, opened func(), note func(change) error) (version string, told, err error) {
	l, err := q.list(ctx, c)
	if err != nil {
		return "", nil, err
	}
	opened()
	there := map[string]bool{}
	var changes []change
	for _, o := range l.objects {
		there[o.key()] = true
		kind, before := "MODIFIED", known[o.key()]
		if before != nil && before.UID != o.UID {
			changes = append(changes, change{"DELETED", before})
			before = nil
		}
		if before == nil {
			kind = "ADDED"
		}
		changes = append(changes, change{kind, o})
	}
	for key, o := range known {
		if !there[key] {
			changes = append(changes, change{"DELETED", o})
		}
	}
	for _, ch := range changes {
		if err := note(ch); err != nil {
			return "", err, nil
		}
	}
	return l.version, nil, nil
}

// watch reads one watch to its end; opened is told when it is open. next is
// the version to go on from, told the error of note.
func (q query) watch(ctx context.Context, c *client, version string, opened func(), note func(change) error) (next string, told, err error) {
	body, err := c.request(ctx, http.MethodGet, q.path(url.Values{"watch": {"true"}, "resourceVersion": {version}}), q.accept())
	if err != nil {
		var refused *refusal
		if errors.As(err, &refused) && refused.code == http.StatusGone {
			err = errExpired
		}
		return version, nil, err
	}
	defer body.Close()
	opened()
	next = version
	for d := json.NewDecoder(body); ; {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		if err := d.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) {
				return next, nil, nil // its time was over
			}
			return next, nil, io.ErrUnexpectedEOF
		}
		switch e.Type {
		case "ERROR":
			return next, nil, errExpired
		case "ADDED", "MODIFIED", "DELETED":
		default:
			continue
		}
		objects, err := readChanged(e.Object, q.accept() != "")
		if err != nil {
			return next, nil, err
		}
		if err := q.prepare(ctx, c); err != nil {
			return next, nil, err
		}
		for _, o := range objects {
			next = o.ResourceVersion
			if !q.wants(o) {
				continue
			}
			if err := note(change{e.Type, o}); err != nil {
				return next, err, nil
			}
		}
	}
}

func readChanged(raw json.RawMessage, table bool) ([]*object, error) {
	if table {
		l, err := readListing(raw)
		if err != nil {
			return nil, err
		}
		return l.objects, nil
	}
	o, err := newObject(raw)
	return []*object{o}, err
}
