package objects

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
)

// change is one that a watch tells.
type Change struct {
	// kind is ADDED, MODIFIED or DELETED.
	Type   string
	Object *Object
}

// retryPeriod is how often a daemon that does not answer is tried.
const retryPeriod = 500 * time.Millisecond

// errExpired says that the watch cannot go on from where it was.
var errExpired = errors.New("the resource version is too old")

// follow tells each change after a listing, until ctx ends or tell returns an
// error. It survives a restart of the daemon: say is told when it does not
// answer and when it answers again, and what changed meanwhile is told as
// changes.
func (q Query) Watch(ctx context.Context, c *client.Client, from *List, tell func(Change) error, say func(string)) error {
	known := map[string]*Object{}
	for _, o := range from.Objects {
		known[o.Key()] = o
	}
	note := func(ch Change) error {
		before := known[ch.Object.Key()]
		if ch.Type == "DELETED" {
			delete(known, ch.Object.Key())
		} else {
			known[ch.Object.Key()] = ch.Object
		}
		if ch.Type == "MODIFIED" && before != nil && before.equalIgnoringVersion(ch.Object) {
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
			if at, told, err = q.relist(ctx, c, known, back, note); told == nil && err == nil {
				version, stale = at, false
			}
		} else {
			version, told, err = q.watchOnce(ctx, c, version, back, note)
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
		case !client.IsUnreachable(err):
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
func (q Query) relist(ctx context.Context, c *client.Client, known map[string]*Object, opened func(), note func(Change) error) (version string, told, err error) {
	l, err := q.List(ctx, c)
	if err != nil {
		return "", nil, err
	}
	opened()
	there := map[string]bool{}
	var changes []Change
	for _, o := range l.Objects {
		there[o.Key()] = true
		kind, before := "MODIFIED", known[o.Key()]
		if before != nil && before.UID != o.UID {
			changes = append(changes, Change{"DELETED", before})
			before = nil
		}
		if before == nil {
			kind = "ADDED"
		}
		changes = append(changes, Change{kind, o})
	}
	for key, o := range known {
		if !there[key] {
			changes = append(changes, Change{"DELETED", o})
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
func (q Query) watchOnce(ctx context.Context, c *client.Client, version string, opened func(), note func(Change) error) (next string, told, err error) {
	body, err := c.Request(ctx, http.MethodGet, q.path(url.Values{"watch": {"true"}, "resourceVersion": {version}}), q.accept())
	if err != nil {
		var refused *client.StatusError
		if errors.As(err, &refused) && refused.Code == http.StatusGone {
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
			if !q.matches(o) {
				continue
			}
			if err := note(Change{e.Type, o}); err != nil {
				return next, err, nil
			}
		}
	}
}

func readChanged(raw json.RawMessage, table bool) ([]*Object, error) {
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
