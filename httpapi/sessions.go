package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/apistatus"
	"github.com/podstead/podstead/httpapi/streaming"
)

// maxSessions is the maximum number of concurrent exec, attach and port forwarding
// sessions.
const maxSessions = 256

// reservedSessions are additional sessions for callers on the unix socket.
const reservedSessions = 32

// ContainerStreams opens sessions with containers through the runtime.
type ContainerStreams interface {
	// Exec returns the URL of a session with a new command in a container, Attach that
	// of a session with the container's main process. A URL is valid for one session
	// that starts soon.
	Exec(ctx context.Context, containerID string, command []string, o streaming.Options) (url string, err error)
	Attach(ctx context.Context, containerID string, o streaming.Options) (url string, err error)
	// Run runs a command to its end and returns its output. A command that fails is an
	// error.
	Run(ctx context.Context, containerID string, command []string) ([]byte, error)
	// Dial connects to a port of a pod.
	Dial(ctx context.Context, pod types.UID, port uint16) (streaming.PortConn, error)
}

// sessions serves exec, attach, port forwarding and run.
type sessions struct {
	src     Sources
	limiter limiter
}

func newSessions(src Sources) *sessions {
	return &sessions{src: src, limiter: newLimiter(maxSessions, reservedSessions)}
}

// limited responds with 429 while too many sessions are open.
func (s *sessions) limited(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if release := s.limiter.acquire(r); release != nil {
			defer release()
			h(w, r)
		} else {
			apistatus.Write(w, r, apistatus.New(http.StatusTooManyRequests,
				"too many sessions: %d exec, attach and port forwarding sessions are open; close one of them", maxSessions))
		}
	}
}

func (s *sessions) exec(w http.ResponseWriter, r *http.Request) {
	command, o := r.URL.Query()["command"], streamOptions(r.URL.Query())
	_, c, ok := s.running(w, r)
	switch {
	case !ok:
	case len(command) == 0:
		apistatus.Write(w, r, apistatus.New(http.StatusBadRequest,
			"command: must not be empty; repeat the parameter for each argument"))
	case o == streaming.Options{TTY: o.TTY}:
		apistatus.Write(w, r, apistatus.New(http.StatusBadRequest, "request at least one of stdin, stdout and stderr"))
	default:
		// If the session ends early, the runtime decides what happens to the command,
		// as with the kubelet.
		_ = streaming.RemoteCommand{Client: o, Runtime: o, Idle: s.src.StreamIdle,
			Open: func(ctx context.Context) (string, error) {
				return s.src.Streams.Exec(ctx, c.id, command, o)
			}}.Serve(w, r)
	}
}

func (s *sessions) attach(w http.ResponseWriter, r *http.Request) {
	o := streamOptions(r.URL.Query())
	_, c, ok := s.running(w, r)
	rt := o
	// Whether the container has a terminal was decided when it was created.
	if rt.TTY = c.tty; rt.TTY {
		rt.Stderr = false
	}
	switch {
	case !ok:
	case o.Stdin && !c.stdin:
		apistatus.Write(w, r, apistatus.New(http.StatusBadRequest,
			"container %q has no stdin; set stdin: true in the manifest, or attach without stdin", c.name))
	case rt == streaming.Options{TTY: rt.TTY}:
		apistatus.Write(w, r, apistatus.New(http.StatusBadRequest, "request at least one of stdin, stdout and stderr"))
	default:
		_ = streaming.RemoteCommand{Client: o, Runtime: rt, Idle: s.src.StreamIdle,
			Open: func(ctx context.Context) (string, error) {
				return s.src.Streams.Attach(ctx, c.id, rt)
			}}.Serve(w, r)
	}
}

// run responds with the output of a command, as the kubelet's /run does: the command is
// split at spaces.
func (s *sessions) run(w http.ResponseWriter, r *http.Request) {
	command := strings.Fields(r.URL.Query().Get("cmd"))
	_, c, ok := s.running(w, r)
	if !ok {
		return
	}
	if len(command) == 0 {
		apistatus.Write(w, r, apistatus.New(http.StatusBadRequest, "cmd: must not be empty"))
		return
	}
	// The command may run for any time.
	if err := http.NewResponseController(w).SetWriteDeadline(time.Time{}); err != nil {
		apistatus.Write(w, r, apistatus.New(http.StatusInternalServerError, "%v", err))
		return
	}
	out, err := s.src.Streams.Run(r.Context(), c.id, command)
	if err != nil {
		apistatus.Write(w, r, apistatus.New(http.StatusInternalServerError, "%v", errors.Join(err, outputError(out))))
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(out) // a client that went away needs no response
}

func outputError(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	return fmt.Errorf("output: %s", out)
}

func (s *sessions) portForward(w http.ResponseWriter, r *http.Request) {
	pod, ok := s.pod(w, r)
	if !ok {
		return
	}
	if pod.Status.Phase != v1.PodRunning {
		apistatus.Write(w, r, apistatus.New(http.StatusBadRequest, "pod %q is not running: its phase is %s", pod.Name,
			pod.Status.Phase))
		return
	}
	_ = streaming.PortForward{Idle: s.src.StreamIdle, Local: access.CallerFrom(r.Context()).Local,
		Dial: func(ctx context.Context, port uint16) (streaming.PortConn, error) {
			return s.src.Streams.Dial(ctx, pod.UID, port)
		}}.Serve(w, r)
}

// pod returns the pod that the path names. It serves the request and returns false if
// there is none.
func (s *sessions) pod(w http.ResponseWriter, r *http.Request) (*v1.Pod, bool) {
	pod, err := findPod(s.src, r.PathValue("namespace"), r.PathValue("pod"))
	if uid := r.PathValue("uid"); err == nil && uid != "" && uid != string(pod.UID) {
		err = fmt.Errorf("pod %q has the UID %s, not %s", pod.Name, pod.UID, uid)
	}
	if err != nil {
		apistatus.Write(w, r, apistatus.New(http.StatusNotFound, "%v", err))
		return nil, false
	}
	return pod, true
}

// runningContainer is a container that runs.
type runningContainer struct {
	name, id   string
	stdin, tty bool
}

// running returns the container that the path or the query names. It serves the request
// and returns false if the container does not run.
func (s *sessions) running(w http.ResponseWriter, r *http.Request) (*v1.Pod, runningContainer, bool) {
	pod, ok := s.pod(w, r)
	if !ok {
		return nil, runningContainer{}, false
	}
	name := r.PathValue("container")
	if name == "" {
		name = r.URL.Query().Get("container")
	}
	if name == "" {
		only, err := onlyContainer(pod)
		if err != nil {
			apistatus.Write(w, r, apistatus.WithCause(apistatus.New(http.StatusBadRequest, "%v", err),
				metav1.CauseTypeFieldValueRequired, "container"))
			return nil, runningContainer{}, false
		}
		name = only
	}
	c, err := findContainer(pod, name)
	if err != nil {
		apistatus.Write(w, r, apistatus.WithCause(apistatus.New(http.StatusNotFound, "%v", err),
			metav1.CauseTypeFieldValueNotFound, "container"))
		return nil, runningContainer{}, false
	}
	st, _ := c.status(pod.Status)
	_, id, _ := strings.Cut(st.ContainerID, "://")
	if st.State.Running == nil || id == "" {
		apistatus.Write(w, r, apistatus.New(http.StatusBadRequest, "container %q in pod %q is not running: %s", name,
			pod.Name, describeState(st.State)))
		return nil, runningContainer{}, false
	}
	return pod, runningContainer{name: name, id: id, stdin: c.spec.Stdin, tty: c.spec.TTY}, true
}

// describeState reports in what state a container is that does not run.
func describeState(st v1.ContainerState) string {
	switch {
	case st.Terminated != nil:
		return fmt.Sprintf("terminated with exit code %d (%s)", st.Terminated.ExitCode, st.Terminated.Reason)
	case st.Waiting != nil && st.Waiting.Message != "":
		return fmt.Sprintf("waiting (%s: %s)", st.Waiting.Reason, st.Waiting.Message)
	case st.Waiting != nil && st.Waiting.Reason != "":
		return fmt.Sprintf("waiting (%s)", st.Waiting.Reason)
	}
	return "not started yet"
}

// streamOptions reads the requested streams, by the kubelet's names and by those of the
// Kubernetes API.
func streamOptions(q url.Values) streaming.Options {
	on := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { v := q.Get(n); return v == "1" || v == "true" })
	}
	o := streaming.Options{Stdin: on("input", "stdin"), Stdout: on("output", "stdout"), Stderr: on("error", "stderr"),
		TTY: on("tty")}
	if o.TTY {
		o.Stderr = false // a terminal has a single output
	}
	return o
}
