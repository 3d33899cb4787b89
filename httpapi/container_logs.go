package httpapi

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi/containerlog"
)

const (
	// maxLogStreams is how many logs are read at once. Each that follows
	// holds one of the 128 inotify instances that a user has by default.
	maxLogStreams = 64
	// ownLogStreams is how many more whoever may use the socket reads, however
	// many others do.
	reservedLogStreams = 16
	// logStall is how long a client may take nothing, as a pager does, before
	// its stream ends. It is the kubelet's limit for idle streams. A stalled
	// client holds a goroutine and a file and stands in nobody's way.
	logStall = 4 * time.Hour
)

// LogDirectory gives the folder in which a pod's containers have their logs,
// a folder each.
type LogDirectory func(pod *v1.Pod) string

// StatusReader gives the status of a pod and tells when one changed.
type StatusReader interface {
	// Get is the status, and false for a pod that is gone.
	Get(uid types.UID) (v1.PodStatus, bool)
	// Subscribe returns a channel that is woken after a change of any
	// status, and what ends the subscription.
	Subscribe() (<-chan struct{}, func())
}

// containerLogs answers with what a container printed, with the kubelet's
// parameters. It departs from the kubelet's in that following goes on over a
// restart of the container, and ends when it has ended for good or its pod is
// gone.
func containerLogs(src Sources) http.HandlerFunc {
	slots := newLimiter(maxLogStreams, reservedLogStreams)
	return func(w http.ResponseWriter, r *http.Request) {
		if free := slots.acquire(r); free != nil {
			defer free()
		} else {
			http.Error(w, fmt.Sprintf("%d logs are being read already; end one of them", maxLogStreams), http.StatusTooManyRequests)
			return
		}
		req, previous, err := logRequest(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		pod, err := findPod(src, r.PathValue("namespace"), r.PathValue("pod"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		c, err := findContainer(pod, r.PathValue("container"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		// The names are the pod's own from here on: nothing of the request
		// becomes part of a path.
		req.Dir = filepath.Join(src.LogDirectory(pod), c.name)
		if req.Instance, err = logInstance(req.Dir, pod, c, previous); err != nil {
			// The kubelet's code for a container without a log.
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if previous {
			req.Follow = nil // nothing is added to it any more
		}
		if req.Follow != nil {
			changed, cancel := src.Statuses.Subscribe()
			defer cancel()
			req.Follow = &containerlog.Follow{Changed: changed, Ended: func() bool {
				st, ok := src.Statuses.Get(pod.UID)
				return !ok || c.hasEnded(st)
			}}
		}
		sendLog(w, r, req)
	}
}

// sendLog sends the log. What ends before the log does (the daemon ends, the
// file cannot be read) breaks the connection, so that no client takes it for
// the end of the log.
func sendLog(w http.ResponseWriter, r *http.Request, req containerlog.Request) {
	s, err := containerlog.Open(r.Context(), req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer s.Close()
	out := &logWriter{w: w, c: http.NewResponseController(w)}
	// The server's limits are for short answers. Without a read deadline it
	// still notices that the client went.
	if err := out.c.SetReadDeadline(time.Time{}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err := s.Copy(r.Context(), out); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// logWriter gives each write a deadline of its own.
type logWriter struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func (l *logWriter) Write(b []byte) (int, error) {
	if err := l.c.SetWriteDeadline(time.Now().Add(logStall)); err != nil {
		return 0, err
	}
	return l.w.Write(b)
}

func (l *logWriter) Flush() error {
	if err := l.c.SetWriteDeadline(time.Now().Add(logStall)); err != nil {
		return err
	}
	if err := l.c.Flush(); err != nil {
		return err
	}
	// A log may be quiet for long, and HTTP/2 ends a stream at its deadline,
	// though nothing waits to be written.
	return l.c.SetWriteDeadline(time.Time{})
}

// logRequest reads the parameters.
func logRequest(q url.Values) (req containerlog.Request, previous bool, err error) {
	number := func(name string, least int64) (n int64, given bool) {
		text := q.Get(name)
		if text == "" || err != nil {
			return 0, false
		}
		n, e := strconv.ParseInt(text, 10, 64)
		if e != nil || n < least {
			err = fmt.Errorf("%s=%q: must be a whole number, %d or more", name, text, least)
		}
		return n, true
	}
	flag := func(name string) bool {
		if !q.Has(name) || err != nil {
			return false
		}
		text := q.Get(name)
		on, e := strconv.ParseBool(text)
		if e != nil && text != "" {
			err = fmt.Errorf("%s=%q: must be true or false", name, text)
		}
		return on || text == ""
	}
	req.Options.Tail = -1
	if n, given := number("tailLines", 0); given {
		req.Options.Tail = n
	}
	if n, given := number("limitBytes", 1); given {
		req.Options.Limit = n
	}
	seconds, relative := number("sinceSeconds", 1)
	if relative {
		// More than a century is everything, and must not overflow.
		req.Options.Since = time.Now().Add(-time.Duration(min(seconds, 1<<32)) * time.Second)
	}
	if text := q.Get("sinceTime"); text != "" && err == nil {
		at, e := time.Parse(time.RFC3339Nano, text)
		switch {
		case e != nil:
			err = fmt.Errorf("sinceTime=%q: must be a time such as 2026-01-31T12:00:00Z", text)
		case relative:
			err = errors.New("sinceTime and sinceSeconds: give one of them")
		}
		req.Options.Since = at
	}
	req.Options.Timestamps = flag("timestamps")
	previous = flag("previous")
	if flag("follow") {
		req.Follow = &containerlog.Follow{}
	}
	return req, previous, err
}

// logInstance is the number of the log that is asked for.
func logInstance(dir string, pod *v1.Pod, c container, previous bool) (int, error) {
	all, err := containerlog.Instances(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("cannot read the logs of container %q: %w", c.name, err)
	}
	st, known := c.status(pod.Status)
	if previous {
		// The status tells which instance ended last: while none runs, it
		// is the newest. Later logs may be there already.
		highest := int(st.RestartCount)
		if st.State.Waiting == nil {
			highest--
		}
		for i := len(all) - 1; known && st.LastTerminationState.Terminated != nil && i >= 0; i-- {
			if all[i] <= highest {
				return all[i], nil
			}
		}
		if !known || st.LastTerminationState.Terminated == nil {
			return 0, fmt.Errorf("container %q in pod %q has no previous instance with a log", c.name, pod.Name)
		}
		// In a fast loop of crashes the status is older than what the collection
		// of the dead has left: the one before the newest is the last then. If
		// the newest has ended, too, it may be the only one.
		if len(all) > 1 {
			return all[len(all)-2], nil
		}
		if len(all) == 1 && st.State.Terminated != nil {
			return all[0], nil
		}
		return 0, fmt.Errorf("container %q in pod %q has no previous instance with a log", c.name, pod.Name)
	}
	if len(all) > 0 {
		return all[len(all)-1], nil
	}
	if w := st.State.Waiting; w != nil {
		text := fmt.Sprintf("container %q in pod %q is waiting to start: %s", c.name, pod.Name, w.Reason)
		if w.Message != "" {
			text += ": " + w.Message
		}
		return 0, errors.New(text)
	}
	if !known {
		return 0, fmt.Errorf("container %q in pod %q has not started yet", c.name, pod.Name)
	}
	return 0, fmt.Errorf("container %q in pod %q has no log in %s", c.name, pod.Name, dir)
}
