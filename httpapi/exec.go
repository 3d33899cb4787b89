package httpapi

import (
	"context"
	"encoding/json"
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

	"github.com/podstead/podstead/httpapi/streaming"
)

// maxSessions is how many sessions of exec, attach and port forwarding there
// are at once.
const maxSessions = 256

// ownSessions is how many more whoever may use the socket has, however many
// others have.
const reservedSessions = 32

// ContainerStreams are sessions with containers, as the runtime offers them.
type ContainerStreams interface {
	// Exec is the address of a session with a new command in a container, Attach
	// that of one with what it runs already. An address is good for one session
	// that begins soon.
	Exec(ctx context.Context, containerID string, command []string, o streaming.Options) (address string, err error)
	Attach(ctx context.Context, containerID string, o streaming.Options) (address string, err error)
	// Run runs a command to its end and returns what it printed. A command that
	// fails is an error.
	Run(ctx context.Context, containerID string, command []string) ([]byte, error)
	// Dial connects to a port of a pod.
	Dial(ctx context.Context, pod types.UID, port uint16) (streaming.PortConn, error)
}

// sessions serves what streams to and from containers.
type sessions struct {
	src     Sources
	limiter limiter
}

func newSessions(src Sources) *sessions {
	return &sessions{src: src, limiter: newLimiter(maxSessions, reservedSessions)}
}

// limited refuses a session too many.
func (s *sessions) limited(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if free := s.limiter.acquire(r); free != nil {
			defer free()
			h(w, r)
		} else {
			writeStatus(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "%d sessions of exec, attach and port forwarding are open already; end one of them", maxSessions)
		}
	}
}

func (s *sessions) exec(w http.ResponseWriter, r *http.Request) {
	command, o := r.URL.Query()["command"], streamOptions(r.URL.Query())
	_, c, ok := s.running(w, r)
	switch {
	case !ok:
	case len(command) == 0:
		writeStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "no command is given; name it and each of its arguments with command=")
	case o == streaming.Options{TTY: o.TTY}:
		writeStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "one of stdin, stdout and stderr must be asked for")
	default:
		// A session that is cut ends here; what becomes of its command is up to the
		// runtime, as with the kubelet.
		_ = streaming.RemoteCommand{Client: o, Runtime: o, Idle: s.src.StreamIdle, Open: func(ctx context.Context) (string, error) {
			return s.src.Streams.Exec(ctx, c.id, command, o)
		}}.Serve(w, r)
	}
}

func (s *sessions) attach(w http.ResponseWriter, r *http.Request) {
	o := streamOptions(r.URL.Query())
	_, c, ok := s.running(w, r)
	rt := o
	// Whether it has a terminal was settled when it was made.
	if rt.TTY = c.tty; rt.TTY {
		rt.Stderr = false
	}
	switch {
	case !ok:
	case o.Stdin && !c.stdin:
		writeStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "container %q was made without standard input; set its field stdin in the manifest, or attach without", c.name)
	case rt == streaming.Options{TTY: rt.TTY}:
		writeStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "one of stdin, stdout and stderr must be asked for")
	default:
		_ = streaming.RemoteCommand{Client: o, Runtime: rt, Idle: s.src.StreamIdle, Open: func(ctx context.Context) (string, error) {
			return s.src.Streams.Attach(ctx, c.id, rt)
		}}.Serve(w, r)
	}
}

// run answers with what a command printed, as the kubelet's /run does: the
// command is split at spaces.
func (s *sessions) run(w http.ResponseWriter, r *http.Request) {
	command := strings.Fields(r.URL.Query().Get("cmd"))
	_, c, ok := s.running(w, r)
	if !ok {
		return
	}
	if len(command) == 0 {
		writeStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "no command is given; name it with cmd=")
		return
	}
	// The command takes its time.
	if err := http.NewResponseController(w).SetWriteDeadline(time.Time{}); err != nil {
		writeStatus(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "%v", err)
		return
	}
	out, err := s.src.Streams.Run(r.Context(), c.id, command)
	if err != nil {
		writeStatus(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "%v", errors.Join(err, outputError(out)))
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(out) // a client that went away needs no answer
}

func outputError(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	return fmt.Errorf("it printed: %s", out)
}

func (s *sessions) portForward(w http.ResponseWriter, r *http.Request) {
	pod, ok := s.pod(w, r)
	if !ok {
		return
	}
	if pod.Status.Phase != v1.PodRunning {
		writeStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "pod %q does not run: its phase is %s", pod.Name, pod.Status.Phase)
		return
	}
	_ = streaming.PortForward{Idle: s.src.StreamIdle, Dial: func(ctx context.Context, port uint16) (streaming.PortConn, error) {
		return s.src.Streams.Dial(ctx, pod.UID, port)
	}}.Serve(w, r)
}

// pod is the pod that the path names; false if that was answered already.
func (s *sessions) pod(w http.ResponseWriter, r *http.Request) (*v1.Pod, bool) {
	pod, err := findPod(s.src, r.PathValue("namespace"), r.PathValue("pod"))
	if uid := r.PathValue("uid"); err == nil && uid != "" && uid != string(pod.UID) {
		err = fmt.Errorf("pod %q has the UID %s, not %s", pod.Name, pod.UID, uid)
	}
	if err != nil {
		writeStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound, "%v", err)
		return nil, false
	}
	return pod, true
}

// runningContainer is a container with a process.
type runningContainer struct {
	name, id   string
	stdin, tty bool
}

// running is the container that the request names, in its path or as a
// parameter; false if there is none and that was answered already.
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
			writeStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
			return nil, runningContainer{}, false
		}
		name = only
	}
	c, err := findContainer(pod, name)
	if err != nil {
		writeStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound, "%v", err)
		return nil, runningContainer{}, false
	}
	st, _ := c.status(pod.Status)
	_, id, _ := strings.Cut(st.ContainerID, "://")
	if st.State.Running == nil || id == "" {
		writeStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "container %q in pod %q does not run: %s", name, pod.Name, describeState(st.State))
		return nil, runningContainer{}, false
	}
	found := runningContainer{name: name, id: id}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		if i := slices.IndexFunc(list, func(c v1.Container) bool { return c.Name == name }); i >= 0 {
			found.stdin, found.tty = list[i].Stdin, list[i].TTY
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; c.Name == name {
			found.stdin, found.tty = c.Stdin, c.TTY
		}
	}
	return pod, found, true
}

// whyNot says in what state a container is that does not run.
func describeState(st v1.ContainerState) string {
	switch {
	case st.Terminated != nil:
		return fmt.Sprintf("it ended with exit code %d (%s)", st.Terminated.ExitCode, st.Terminated.Reason)
	case st.Waiting != nil && st.Waiting.Message != "":
		return fmt.Sprintf("it waits (%s: %s)", st.Waiting.Reason, st.Waiting.Message)
	case st.Waiting != nil:
		return fmt.Sprintf("it waits (%s)", st.Waiting.Reason)
	}
	return "it has not started yet"
}

// streamOptions reads which streams are asked for: in the kubelet's names and
// in those of the Kubernetes API.
func streamOptions(q url.Values) streaming.Options {
	on := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { v := q.Get(n); return v == "1" || v == "true" })
	}
	o := streaming.Options{Stdin: on("input", "stdin"), Stdout: on("output", "stdout"), Stderr: on("error", "stderr"), TTY: on("tty")}
	if o.TTY {
		o.Stderr = false // a terminal has one output
	}
	return o
}

// refuseAs answers with a status of the Kubernetes API, which clients of these
// routes read the message of.
func writeStatus(w http.ResponseWriter, code int, reason metav1.StatusReason, format string, args ...any) {
	body, err := json.Marshal(&metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: fmt.Sprintf(format, args...),
	})
	if err != nil {
		http.Error(w, fmt.Sprintf(format, args...), code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that went away needs no answer
}
