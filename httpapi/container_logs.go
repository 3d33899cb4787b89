package httpapi

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi/apistatus"
	"github.com/podstead/podstead/httpapi/containerlog"
)

const (
	// maxLogStreams is the maximum number of logs that are read concurrently. Each that is
	// followed uses one of the 128 inotify instances that a user has by default.
	maxLogStreams = 64
	// reservedLogStreams are additional ones for callers on the unix socket.
	reservedLogStreams = 16
	// logStallTimeout ends the stream of a client that reads nothing, as behind a pager, for
	// that long. It is the kubelet's limit for idle streams. A stalled client costs a
	// goroutine and a file, and blocks nothing else.
	logStallTimeout = 4 * time.Hour
)

// LogDirectory returns the directory of a pod's logs, which has a subdirectory for each
// container.
type LogDirectory func(pod *v1.Pod) string

// StatusReader returns pod statuses and notifies about changes.
type StatusReader interface {
	// Get returns the status of a pod, false if the pod no longer exists.
	Get(uid types.UID) (v1.PodStatus, bool)
	// Subscribe returns a channel that is notified after a change of any status, and a
	// function that ends the subscription.
	Subscribe() (<-chan struct{}, func())
}

// containerLogs serves the log of a container, with the kubelet's parameters. It departs
// from the kubelet in one point: following a log continues after a restart of the
// container. It ends when the container will not restart or its pod is gone.
func containerLogs(src Sources) http.HandlerFunc {
	limit := newLimiter(maxLogStreams, reservedLogStreams)
	return func(w http.ResponseWriter, r *http.Request) {
		release := limit.acquire(r)
		if release == nil {
			apistatus.Error(w, r, http.StatusTooManyRequests, "too many requests: %d logs are being read; close one of them",
				maxLogStreams)
			return
		}
		defer release()
		req, previous, err := logRequest(r.URL.Query())
		if err != nil {
			apistatus.Error(w, r, http.StatusBadRequest, "%v", err)
			return
		}
		pod, err := findPod(src, r.PathValue("namespace"), r.PathValue("pod"))
		if err != nil {
			apistatus.Error(w, r, http.StatusNotFound, "%v", err)
			return
		}
		c, err := findContainer(pod, r.PathValue("container"))
		if err != nil {
			writeContainerError(w, r, http.StatusNotFound, metav1.CauseTypeFieldValueNotFound, err)
			return
		}
		// From here on only names of the pod are used: nothing of the request becomes part
		// of a path.
		req.Dir = filepath.Join(src.LogDirectory(pod), c.spec.Name)
		if req.Instance, err = logInstance(req.Dir, pod, c, previous); err != nil {
			// The kubelet's code for a container without a log.
			apistatus.Error(w, r, http.StatusBadRequest, "%v", err)
			return
		}
		st, _ := c.status(pod.Status)
		req.Ended = previous || st.State.Terminated != nil
		if previous {
			req.Follow = nil // nothing is added to the log of an instance that has ended
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

// sendLog sends the log. If it cannot send all of it (the daemon shuts down, the file cannot
// be read), it aborts the connection, so that the client does not take this for the end of
// the log.
func sendLog(w http.ResponseWriter, r *http.Request, req containerlog.Request) {
	s, err := containerlog.Open(r.Context(), req)
	if err != nil {
		apistatus.Error(w, r, http.StatusInternalServerError, "%v", err)
		return
	}
	defer s.Close()
	out := &logWriter{w: w, c: http.NewResponseController(w)}
	// The server's deadlines are made for short responses. Without a read deadline it still
	// notices that the client has disconnected.
	if err := out.c.SetReadDeadline(time.Time{}); err != nil {
		apistatus.Error(w, r, http.StatusInternalServerError, "%v", err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	// The flush sends the log in chunks before the end of the response, as the kubelet does.
	// a response with a Content-Length gives its last bytes and its end in one read, and an
	// API server that passes a log on over WebSocket drops such bytes.
	if err := errors.Join(s.Copy(r.Context(), out), out.Flush()); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// logWriter sets a deadline for each write.
type logWriter struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func (l *logWriter) Write(b []byte) (int, error) {
	if err := l.c.SetWriteDeadline(time.Now().Add(logStallTimeout)); err != nil {
		return 0, err
	}
	return l.w.Write(b)
}

func (l *logWriter) Flush() error {
	if err := l.c.SetWriteDeadline(time.Now().Add(logStallTimeout)); err != nil {
		return err
	}
	if err := l.c.Flush(); err != nil {
		return err
	}
	// A log may get no lines for a long time, and HTTP/2 ends a stream at its deadline even
	// if nothing is being written.
	return l.c.SetWriteDeadline(time.Time{})
}

// logRequest parses the parameters.
func logRequest(q url.Values) (req containerlog.Request, previous bool, err error) {
	number := func(name string, minimum int64) (n int64, given bool) {
		text := q.Get(name)
		if text == "" || err != nil {
			return 0, false
		}
		n, e := strconv.ParseInt(text, 10, 64)
		if e != nil || n < minimum {
			err = fmt.Errorf("%s=%q: must be an integer of at least %d", name, text, minimum)
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
		// Limited to more than a century, so that it does not overflow.
		req.Options.Since = time.Now().Add(-time.Duration(min(seconds, 1<<32)) * time.Second)
	}
	if text := q.Get("sinceTime"); text != "" && err == nil {
		at, e := time.Parse(time.RFC3339Nano, text)
		switch {
		case e != nil:
			err = fmt.Errorf("sinceTime=%q: must be an RFC 3339 time such as 2026-01-31T12:00:00Z", text)
		case relative:
			err = errors.New("sinceTime and sinceSeconds: only one of them may be set")
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

// logInstance returns the number of the requested log: the restart count of the instance
// that wrote it.
func logInstance(dir string, pod *v1.Pod, c container, previous bool) (int, error) {
	all, err := containerlog.Instances(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("failed to read the logs of container %q: %w", c.spec.Name, err)
	}
	st, known := c.status(pod.Status)
	if previous {
		if instance, ok := previousInstance(all, st); ok && known {
			return instance, nil
		}
		return 0, fmt.Errorf("container %q in pod %q has no previous instance with a log", c.spec.Name, pod.Name)
	}
	if len(all) > 0 {
		return all[len(all)-1], nil
	}
	if w := st.State.Waiting; w != nil || !known {
		return 0, fmt.Errorf("container %q in pod %q is waiting to start%s", c.spec.Name, pod.Name, waitsFor(pod, w))
	}
	return 0, fmt.Errorf("container %q in pod %q has no log in %s", c.spec.Name, pod.Name, dir)
}

// waitsFor reports after a colon what a container waits for: what its own state reports, which may
// be nil, or else what the pod waits for, such as another pod; empty if neither is known.
func waitsFor(pod *v1.Pod, w *v1.ContainerStateWaiting) string {
	reason, message := "", ""
	if w != nil {
		reason, message = w.Reason, w.Message
	}
	if message == "" && pod.Status.Message != "" {
		reason, message = pod.Status.Reason, pod.Status.Message
	}
	text := ""
	for _, part := range []string{reason, message} {
		if part != "" {
			text += ": " + part
		}
	}
	return text
}

// previousInstance selects the log of the instance that ended last.
func previousInstance(all []int, st v1.ContainerStatus) (int, bool) {
	if st.LastTerminationState.Terminated == nil {
		return 0, false
	}
	// While no instance runs, the newest one in the status ended last. There may already
	// be logs of later instances.
	highest := int(st.RestartCount)
	if st.State.Waiting == nil {
		highest--
	}
	for _, instance := range slices.Backward(all) {
		if instance <= highest {
			return instance, true
		}
	}
	// In a fast crash loop the status may be older than all logs that garbage collection
	// has left. Then the one before the newest ended last. If the newest instance has
	// terminated too, it may be the only one.
	switch {
	case len(all) > 1:
		return all[len(all)-2], true
	case len(all) == 1 && st.State.Terminated != nil:
		return all[0], true
	}
	return 0, false
}
