package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/podstead/podstead/test/machine/wire"
)

const portName = wire.PortName

// errOff is the error of a command on a machine that is off or whose agent has ended.
var errOff = errors.New("the machine is off")

// channel is the connection to the agent of one run of a machine.
type channel struct {
	conn    net.Conn
	writing sync.Mutex
	// ready is closed when the agent has reported.
	ready chan struct{}

	mu      sync.Mutex
	last    uint32
	running map[uint32]*running
	closed  bool
}

// running is a command whose end was not reported yet.
type running struct {
	stdout, stderr io.Writer
	exit           chan wire.ExitStatus // closed without a value if the machine is off
}

func newChannel(conn net.Conn) *channel {
	c := &channel{conn: conn, ready: make(chan struct{}), running: map[uint32]*running{}}
	go c.read()
	return c
}

func (c *channel) close() { _ = c.conn.Close() }

// read distributes the agent's frames until the machine is off.
func (c *channel) read() {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.closed = true
		for _, r := range c.running {
			close(r.exit)
		}
		c.running = nil
	}()
	for {
		f, err := wire.Read(c.conn)
		if err != nil {
			return
		}
		if f.Kind == wire.Hello {
			close(c.ready)
			continue
		}
		c.mu.Lock()
		r := c.running[f.ID]
		if f.Kind == wire.Exit {
			delete(c.running, f.ID)
		}
		c.mu.Unlock()
		if r == nil {
			continue
		}
		switch f.Kind {
		case wire.Stdout:
			_, _ = r.stdout.Write(f.Data)
		case wire.Stderr:
			_, _ = r.stderr.Write(f.Data)
		case wire.Exit:
			var status wire.ExitStatus
			if err := json.Unmarshal(f.Data, &status); err != nil {
				status = wire.ExitStatus{Code: -1, Err: err.Error()}
			}
			r.exit <- status
		}
	}
}

func (c *channel) send(f wire.Frame) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return wire.Write(c.conn, f)
}

// run runs a command and returns its exit code. When ctx ends, it kills the command.
func (c *channel) run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	r := &running{stdout: stdout, stderr: stderr, exit: make(chan wire.ExitStatus, 1)}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return -1, errOff
	}
	c.last++
	id := c.last
	c.running[id] = r
	c.mu.Unlock()

	data, err := json.Marshal(wire.Command{Args: args, Input: stdin != nil})
	if err == nil {
		err = c.send(wire.Frame{ID: id, Kind: wire.Start, Data: data})
	}
	if err != nil {
		return -1, fmt.Errorf("%w: %v", errOff, err)
	}
	if stdin != nil {
		go c.sendInput(id, stdin)
	}
	select {
	case status, ok := <-r.exit:
		switch {
		case !ok:
			return -1, errOff
		case status.Err != "":
			return -1, errors.New(status.Err)
		}
		return status.Code, nil
	case <-ctx.Done():
		_ = c.send(wire.Frame{ID: id, Kind: wire.Kill})
		return -1, ctx.Err()
	}
}

// sendInput sends the input of a command, up to its end or to that of the machine.
func (c *channel) sendInput(id uint32, stdin io.Reader) {
	buf := make([]byte, wire.MaxData)
	for {
		n, err := stdin.Read(buf)
		if n > 0 && c.send(wire.Frame{ID: id, Kind: wire.Stdin, Data: buf[:n]}) != nil {
			return
		}
		if err != nil {
			_ = c.send(wire.Frame{ID: id, Kind: wire.Stdin})
			return
		}
	}
}
