package probe

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// hookOn runs a hook of a container whose pod is this host.
func hookOn(t *testing.T, exec Execer, handler v1.LifecycleHandler, ports ...v1.ContainerPort) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return NewHooks(Config{Exec: exec, UserAgent: "podstead-lifecycle/1"}).Run(ctx, Hook{
		Handler: &handler, Container: &v1.Container{Name: "c", Ports: ports}, ID: "id-1", IP: "127.0.0.1",
	})
}

// fails compares an error with a part of its text, empty for none.
func fails(t *testing.T, err error, text string) {
	t.Helper()
	if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %q", err, text)
	}
}

type execHook func(id string, command []string, timeout time.Duration) (ExecResult, error)

func (f execHook) Exec(_ context.Context, id string, command []string, timeout time.Duration) (ExecResult, error) {
	return f(id, command, timeout)
}

func TestHookExec(t *testing.T) {
	run := v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"drain", "$(NOW)"}}}
	for name, c := range map[string]struct {
		result ExecResult
		err    error
		want   string
	}{
		"success": {},
		"failure": {result: ExecResult{ExitCode: 3, Output: []byte("no database")},
			want: `command ["drain" "$(NOW)"] exited with 3: no database`},
		"silent":  {result: ExecResult{ExitCode: 7, Output: []byte("\n")}, want: `command ["drain" "$(NOW)"] exited with 7`},
		"no time": {result: ExecResult{TimedOut: true}, want: context.DeadlineExceeded.Error()},
		"error":   {err: errors.New("the runtime is away"), want: "the runtime is away"},
	} {
		t.Run(name, func(t *testing.T) {
			err := hookOn(t, execHook(func(id string, command []string, timeout time.Duration) (ExecResult, error) {
				if id != "id-1" || !slices.Equal(command, run.Exec.Command) || timeout != 0 {
					t.Errorf("ran %q in %s within %s", command, id, timeout)
				}
				return c.result, c.err
			}), run)
			fails(t, err, c.want)
			if err != nil && strings.HasSuffix(err.Error(), ": ") {
				t.Errorf("%q is cut off", err)
			}
		})
	}
}

func portOf(t *testing.T, s *httptest.Server) int32 {
	t.Helper()
	return int32(s.Listener.Addr().(*net.TCPAddr).Port)
}

func TestHookHTTP(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	get := &v1.HTTPGetAction{Path: "/drain?now=1", Port: intstr.FromString("web"), Scheme: v1.URISchemeHTTP,
		HTTPHeaders: []v1.HTTPHeader{{Name: "X-A", Value: "b"}}}
	named := v1.ContainerPort{Name: "web", ContainerPort: portOf(t, server)}
	fails(t, hookOn(t, nil, v1.LifecycleHandler{HTTPGet: get}, named), "")
	if got == nil || got.URL.String() != "/drain?now=1" || got.Header.Get("X-A") != "b" ||
		got.UserAgent() != "podstead-lifecycle/1" {
		t.Fatalf("request %+v", got)
	}
	fails(t, hookOn(t, nil, v1.LifecycleHandler{HTTPGet: get}), `port "web"`)
	server.Close()
	fails(t, hookOn(t, nil, v1.LifecycleHandler{HTTPGet: get}, named), "connection refused")
	err := NewHooks(Config{}).Run(t.Context(),
		Hook{Handler: &v1.LifecycleHandler{HTTPGet: get}, Container: &v1.Container{Ports: []v1.ContainerPort{named}}})
	fails(t, err, "no IP address")
}

// An HTTPS hook that meets plain HTTP is retried over HTTP, without the
// password.
func TestHookHTTPSMeetsHTTP(t *testing.T) {
	secret := "unasked"
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { secret = r.Header.Get("Authorization") })
	get := &v1.HTTPGetAction{Path: "/", Scheme: v1.URISchemeHTTPS,
		HTTPHeaders: []v1.HTTPHeader{{Name: "Authorization", Value: "Basic eDp5"}}}
	plain := httptest.NewServer(handler)
	defer plain.Close()
	get.Port = intstr.FromInt32(portOf(t, plain))
	fails(t, hookOn(t, nil, v1.LifecycleHandler{HTTPGet: get}), "")
	if secret != "" {
		t.Errorf("Authorization was %q", secret)
	}
	encrypted := httptest.NewTLSServer(handler)
	defer encrypted.Close()
	get.Port = intstr.FromInt32(portOf(t, encrypted))
	fails(t, hookOn(t, nil, v1.LifecycleHandler{HTTPGet: get}), "")
	if secret != "Basic eDp5" {
		t.Errorf("Authorization was %q", secret)
	}
}

func TestHookTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connect := v1.LifecycleHandler{
		TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(int32(l.Addr().(*net.TCPAddr).Port))}}
	defer l.Close()
	fails(t, hookOn(t, nil, connect), "")
	connect.TCPSocket.Port = intstr.FromInt32(closedPort(t))
	fails(t, hookOn(t, nil, connect), "connection refused")
}

func TestHookSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, begun := NewHooks(Config{}), time.Now()
		nap := Hook{Handler: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 5}}, Container: &v1.Container{}}
		if err := h.Run(t.Context(), nap); err != nil || time.Since(begun) != 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		if err := h.Run(ctx, nap); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		fails(t, h.Run(t.Context(), Hook{Handler: &v1.LifecycleHandler{}, Container: &v1.Container{}}),
			"the hook has no action")
	})
}
