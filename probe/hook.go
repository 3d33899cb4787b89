package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/retry"
)

// Hook is one postStart or preStop hook of a running container.
type Hook struct {
	Handler *v1.LifecycleHandler
	// Container has the name and the ports.
	Container *v1.Container
	ID        string
	// IP is the target of HTTP and TCP hooks unless they name a host.
	IP string
}

// Hooks runs lifecycle hooks synchronously.
type Hooks struct{ actions actions }

// NewHooks creates a Hooks. It uses Exec and UserAgent of the config.
func NewHooks(cfg Config) *Hooks { return &Hooks{actions: newActions(cfg)} }

var errNoHook = errors.New("the hook has no action; set exec, httpGet, tcpSocket or sleep")

// Run runs a hook until it ends or ctx does. The error describes what failed, for
// an event.
func (h *Hooks) Run(ctx context.Context, hook Hook) error {
	t := &target{container: hook.Container, id: hook.ID, ip: hook.IP}
	switch do := hook.Handler; {
	case do.Exec != nil:
		return h.exec(ctx, t, do.Exec.Command)
	case do.HTTPGet != nil:
		return h.get(ctx, t, do.HTTPGet)
	case do.TCPSocket != nil:
		// The kubelet accepts such a hook and fails it without an attempt.
		return h.connect(ctx, t, do.TCPSocket)
	case do.Sleep != nil:
		retry.Sleep(ctx, time.Duration(do.Sleep.Seconds)*time.Second)
		return ctx.Err()
	}
	return errNoHook
}

// exec runs a command, which as with the kubelet is not expanded.
func (h *Hooks) exec(ctx context.Context, t *target, command []string) error {
	r, err := h.actions.exec.Exec(ctx, t.id, command, 0)
	switch {
	case err != nil:
		return err
	case r.TimedOut:
		// The runtime knows when ctx ends, and may report it first.
		return fmt.Errorf("command %q: %w", command, context.DeadlineExceeded)
	case r.ExitCode != 0:
		output := bytes.TrimSpace(r.Output[:min(len(r.Output), maxHookOutput)])
		if len(output) == 0 {
			return fmt.Errorf("command %q exited with %d", command, r.ExitCode)
		}
		return fmt.Errorf("command %q exited with %d: %s", command, r.ExitCode, output)
	}
	return nil
}

// maxHookOutput is how much of a failed command's output is reported, in bytes.
const maxHookOutput = 512

// get sends a GET request. Any response is a success.
func (h *Hooks) get(ctx context.Context, t *target, get *v1.HTTPGetAction) error {
	request, err := h.actions.request(ctx, t, get)
	if err != nil {
		return err
	}
	response, err := h.actions.http.Do(request)
	if errors.Is(err, http.ErrSchemeMismatch) && request.URL.Scheme == "https" {
		// Old manifests specify HTTPS where the kubelet once used HTTP, and it still
		// falls back. Credentials are not repeated in clear text.
		plain := request.Clone(ctx)
		plain.URL.Scheme = "http"
		plain.Header.Del("Authorization")
		response, err = h.actions.http.Do(plain)
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	// Producing the response may be what does the work; how it ends does not
	// matter.
	_, _ = io.CopyN(io.Discard, response.Body, maxOutput)
	return nil
}

// connect succeeds if the connection is accepted.
func (h *Hooks) connect(ctx context.Context, t *target, to *v1.TCPSocketAction) error {
	address, err := t.address(to.Host, to.Port)
	if err != nil {
		return err
	}
	conn, err := dialTCP(ctx, address)
	if err != nil {
		return err
	}
	return conn.Close()
}
