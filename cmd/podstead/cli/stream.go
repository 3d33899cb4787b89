package cli

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

	"github.com/podstead/podstead/internal/spdy"
)

const (
	protocolCommand = "v4.channel.k8s.io"
	protocolForward = "portforward.k8s.io"

	// The daemon's end of a command that failed, as the kubelet has it.
	reasonExitCode = "NonZeroExitCode"
	causeExitCode  = "ExitCode"
)

// session are the streams of a command or of a container, as seen here. Nil
// ones are not asked for. Of a terminal Stderr is nil.
type session struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	tty            bool
	// sizes are those of the terminal, the first one at once.
	sizes <-chan size
}

// size is that of a terminal in characters.
type size struct{ Width, Height uint16 }

// query are the parameters that ask for the streams.
func (s session) query() url.Values {
	q := url.Values{}
	for name, on := range map[string]bool{"input": s.stdin != nil, "output": s.stdout != nil, "error": s.stderr != nil, "tty": s.tty} {
		if on {
			q.Set(name, "1")
		}
	}
	return q
}

// upgrade asks the daemon for a connection of streams on path.
func (c *client) upgrade(ctx context.Context, path, protocol string) (*spdy.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, c.explain(err)
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
func (c *client) converse(ctx context.Context, path string, s session) error {
	conn, err := c.upgrade(ctx, path, protocolCommand)
	if err != nil {
		return err
	}
	defer conn.Abort()
	defer context.AfterFunc(ctx, conn.Abort)()
	streams := map[string]httpstream.Stream{}
	for _, want := range []struct {
		name string
		on   bool
	}{{v1.StreamTypeError, true}, {v1.StreamTypeStdin, s.stdin != nil}, {v1.StreamTypeStdout, s.stdout != nil}, {v1.StreamTypeStderr, s.stderr != nil}, {v1.StreamTypeResize, s.tty}} {
		if want.on {
			if streams[want.name], err = conn.Open(v1.StreamType, want.name); err != nil {
				return fmt.Errorf("cannot open the stream %s: %w", want.name, err)
			}
		}
	}
	if s.stdin != nil {
		// Reading the terminal cannot be ended; it ends with the program.
		go func() {
			_, _ = io.Copy(streams[v1.StreamTypeStdin], s.stdin)
			_ = streams[v1.StreamTypeStdin].Close()
		}()
	}
	if s.tty {
		go func() {
			to := json.NewEncoder(streams[v1.StreamTypeResize])
			for now := range s.sizes {
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
	}{{v1.StreamTypeStdout, s.stdout}, {v1.StreamTypeStderr, s.stderr}} {
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
	return ending(text)
}

// ending is the error in a status, nil of one that is well.
func ending(text []byte) error {
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
				return &ExitError{Code: code, Err: fmt.Errorf("command terminated with exit code %d", code)}
			}
		}
	}
	return errors.New(st.Message)
}
