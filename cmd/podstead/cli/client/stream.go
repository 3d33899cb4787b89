package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
	"github.com/podstead/podstead/internal/spdy"
)

const (
	remoteCommandProtocol = "v4.channel.k8s.io"
	PortForwardProtocol   = "portforward.k8s.io"

	// The daemon's end of a command that failed, as the kubelet has it.
	reasonExitCode = "NonZeroExitCode"
	causeExitCode  = "ExitCode"
)

// session are the streams of a command or of a container, as seen here. Nil
// ones are not asked for. Of a terminal Stderr is nil.
type Session struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	TTY            bool
	// sizes are those of the terminal, the first one at once.
	Sizes <-chan terminal.Size
}

// query are the parameters that ask for the streams.
func (s Session) query() url.Values {
	q := url.Values{}
	for name, on := range map[string]bool{"input": s.Stdin != nil, "output": s.Stdout != nil, "error": s.Stderr != nil, "tty": s.TTY} {
		if on {
			q.Set(name, "1")
		}
	}
	return q
}

// execPath asks for a command in a container.
func (s Session) ExecPath(pod *v1.Pod, container string, command []string) string {
	q := s.query()
	q["command"] = command
	return "/exec/" + containerPath(pod, container) + "?" + q.Encode()
}

// attachPath asks for what a container runs.
func (s Session) AttachPath(pod *v1.Pod, container string) string {
	return "/attach/" + containerPath(pod, container) + "?" + s.query().Encode()
}

func containerPath(pod *v1.Pod, container string) string {
	return url.PathEscape(pod.Namespace) + "/" + url.PathEscape(pod.Name) + "/" + url.PathEscape(container)
}

// upgrade asks the daemon for a connection of streams on path.
func (c *Client) Upgrade(ctx context.Context, path, protocol string) (*spdy.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, c.connectError(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://podstead"+path, nil)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	s, err := spdy.Upgrade(ctx, conn, r, protocol)
	var refused *spdy.UpgradeError
	if errors.As(err, &refused) {
		var st metav1.Status
		if json.Unmarshal(refused.Body, &st) == nil && st.Message != "" {
			return nil, errors.New(st.Message)
		}
		return nil, fmt.Errorf("podstead answers %w", refused)
	}
	return s, err
}

// converse carries the session until the daemon tells its end. A command that
// failed is an ExitError with its code.
func (c *Client) Stream(ctx context.Context, path string, s Session) error {
	conn, err := c.Upgrade(ctx, path, remoteCommandProtocol)
	if err != nil {
		return err
	}
	defer conn.Abort()
	defer context.AfterFunc(ctx, conn.Abort)()
	streams := map[string]httpstream.Stream{}
	for _, want := range []struct {
		name string
		on   bool
	}{{v1.StreamTypeError, true}, {v1.StreamTypeStdin, s.Stdin != nil}, {v1.StreamTypeStdout, s.Stdout != nil}, {v1.StreamTypeStderr, s.Stderr != nil}, {v1.StreamTypeResize, s.TTY}} {
		if want.on {
			if streams[want.name], err = conn.Open(v1.StreamType, want.name); err != nil {
				return fmt.Errorf("cannot open the stream %s: %w", want.name, err)
			}
		}
	}
	if s.Stdin != nil {
		// Reading the terminal cannot be ended; it ends with the program.
		go func() {
			_, _ = io.Copy(streams[v1.StreamTypeStdin], s.Stdin)
			_ = streams[v1.StreamTypeStdin].Close()
		}()
	}
	if s.TTY {
		go func() {
			to := json.NewEncoder(streams[v1.StreamTypeResize])
			for now := range s.Sizes {
				if to.Encode(now) != nil {
					return
				}
			}
		}()
	}
	var outs sync.WaitGroup
	var printing [2]error
	for i, out := range []struct {
		name string
		to   io.Writer
	}{{v1.StreamTypeStdout, s.Stdout}, {v1.StreamTypeStderr, s.Stderr}} {
		if out.to != nil {
			outs.Go(func() {
				if _, err := io.Copy(out.to, streams[out.name]); err != nil {
					printing[i] = fmt.Errorf("cannot print: %w", err)
					conn.Abort() // as a pipe whose reader left
				}
			})
		}
	}
	text, err := io.ReadAll(streams[v1.StreamTypeError])
	outs.Wait()
	if err := errors.Join(printing[0], printing[1]); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil || len(text) == 0 {
		return errors.New("podstead ended or the connection broke; the command may run on")
	}
	return commandResult(text)
}

// commandError reports that the command in the container exited with a code other than 0.
type CommandError struct{ Code int }

func (e *CommandError) Error() string {
	return fmt.Sprintf("command terminated with exit code %d", e.Code)
}

// ending is the error in a status, nil of one that is well.
func commandResult(text []byte) error {
	var st metav1.Status
	if err := json.Unmarshal(text, &st); err != nil {
		return fmt.Errorf("cannot read podstead's answer: %w", err)
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
	return errors.New(st.Message)
}
