package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/internal/podtable"
	"github.com/podstead/podstead/internal/spdy"
)

const (
	remoteCommandProtocol = "v4.channel.k8s.io"
	// PortForwardProtocol is the protocol of Upgrade for port-forward.
	PortForwardProtocol = "portforward.k8s.io"

	// maxStatus is the maximum size in bytes of the result of a command.
	maxStatus = 1 << 20

	// The reason and cause in the Status of a failed command, as in the kubelet.
	reasonExitCode = "NonZeroExitCode"
	causeExitCode  = "ExitCode"
)

// Session holds the local streams of a command or a container. Nil streams are not
// requested. With a TTY, Stderr is nil.
type Session struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	TTY            bool
	// Sizes delivers the terminal's size, the first one at once; nil without a TTY.
	Sizes <-chan terminal.Size
}

// query returns the parameters that request the streams.
func (s Session) query() url.Values {
	q := url.Values{}
	for name, on := range map[string]bool{"input": s.Stdin != nil, "output": s.Stdout != nil, "error": s.Stderr != nil,
		"tty": s.TTY} {
		if on {
			q.Set(name, "1")
		}
	}
	return q
}

// ExecPath returns the path that runs a command in a container.
func (s Session) ExecPath(pod *v1.Pod, container string, command []string) string {
	q := s.query()
	q["command"] = command
	return "/exec/" + containerPath(pod, container) + "?" + q.Encode()
}

// AttachPath returns the path that attaches to a container.
func (s Session) AttachPath(pod *v1.Pod, container string) string {
	return "/attach/" + containerPath(pod, container) + "?" + s.query().Encode()
}

func containerPath(pod *v1.Pod, container string) string {
	return url.PathEscape(pod.Namespace) + "/" + url.PathEscape(pod.Name) + "/" + url.PathEscape(container)
}

// Upgrade requests a connection of multiplexed streams.
func Upgrade(ctx context.Context, c *client.Client, path, protocol string) (*spdy.Conn, error) {
	conn, err := c.Dial(ctx)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://podstead"+path, nil)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	s, err := spdy.Upgrade(ctx, conn, r, nil, protocol)
	var upgradeErr *spdy.UpgradeError
	if errors.As(err, &upgradeErr) {
		return nil, client.NewStatusError(upgradeErr.Code, upgradeErr.Body, path)
	}
	return s, err
}

// Run runs the session until the daemon reports its end. A command that exited with a
// code other than 0 is a CommandError.
func (s Session) Run(ctx context.Context, c *client.Client, path string) error {
	conn, err := Upgrade(ctx, c, path, remoteCommandProtocol)
	if err != nil {
		return err
	}
	defer conn.Abort()
	defer context.AfterFunc(ctx, conn.Abort)()
	streams, err := s.open(conn)
	if err != nil {
		return err
	}
	s.sendInput(streams)
	var outputs sync.WaitGroup
	var writeErrs [2]error
	for i, out := range []struct {
		name string
		to   io.Writer
	}{{v1.StreamTypeStdout, s.Stdout}, {v1.StreamTypeStderr, s.Stderr}} {
		if out.to != nil {
			outputs.Go(func() {
				if _, err := io.Copy(out.to, streams[out.name]); err != nil {
					writeErrs[i] = fmt.Errorf("failed to write output: %w", err)
					conn.Abort() // like a pipe without a reader
				}
			})
		}
	}
	text, err := io.ReadAll(io.LimitReader(streams[v1.StreamTypeError], maxStatus))
	outputs.Wait()
	if err := errors.Join(writeErrs[0], writeErrs[1]); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil || len(text) == 0 {
		return errors.New("connection to the daemon lost; the command may still be running")
	}
	return commandResult(text)
}

// open opens the session's streams and the one for its result.
func (s Session) open(conn *spdy.Conn) (map[string]httpstream.Stream, error) {
	streams := map[string]httpstream.Stream{}
	for _, want := range []struct {
		name string
		on   bool
	}{{v1.StreamTypeError, true}, {v1.StreamTypeStdin, s.Stdin != nil}, {v1.StreamTypeStdout, s.Stdout != nil},
		{v1.StreamTypeStderr, s.Stderr != nil}, {v1.StreamTypeResize, s.TTY}} {
		if !want.on {
			continue
		}
		stream, err := conn.Open(v1.StreamType, want.name)
		if err != nil {
			return nil, fmt.Errorf("failed to open stream %s: %w", want.name, err)
		}
		streams[want.name] = stream
	}
	return streams, nil
}

// sendInput starts to send standard input and the sizes of the terminal.
func (s Session) sendInput(streams map[string]httpstream.Stream) {
	if s.Stdin != nil {
		// A read of the terminal cannot be canceled; it ends with the program.
		go func() {
			_, _ = io.Copy(streams[v1.StreamTypeStdin], s.Stdin)
			_ = streams[v1.StreamTypeStdin].Close()
		}()
	}
	if s.TTY {
		go func() {
			encoder := json.NewEncoder(streams[v1.StreamTypeResize])
			for size := range s.Sizes {
				if encoder.Encode(size) != nil {
					return
				}
			}
		}()
	}
}

// CommandError reports that the command in the container exited with a code other than 0.
type CommandError struct{ Code int }

func (e *CommandError) Error() string {
	return fmt.Sprintf("command terminated with exit code %d", e.Code)
}

// commandResult returns the error in a Status, nil for success.
func commandResult(text []byte) error {
	var st metav1.Status
	if err := json.Unmarshal(text, &st); err != nil {
		return fmt.Errorf("failed to decode the daemon's response: %w", err)
	}
	if st.Status == metav1.StatusSuccess {
		return nil
	}
	if st.Reason == reasonExitCode && st.Details != nil {
		for _, c := range st.Details.Causes {
			if code, err := strconv.Atoi(c.Message); err == nil && string(c.Type) == causeExitCode {
				return &CommandError{Code: code}
			}
		}
	}
	return errors.New(podtable.Cause(
		strings.TrimPrefix(st.Message, "Internal error occurred: error executing command in container: ")))
}
