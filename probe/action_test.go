package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// once probes a server on this host, which acts as a pod, once.
func once(t *testing.T, handler v1.ProbeHandler, timeout time.Duration, exec Execer) (probeResult, error) {
	t.Helper()
	a := newActions(Config{Exec: exec, UserAgent: "podstead-probe/1"})
	return a.run(t.Context(), probeRequest{
		target: target{container: &v1.Container{Name: "c",
			Ports: []v1.ContainerPort{{Name: "web", ContainerPort: namedPort}}}, id: "id-1", ip: "127.0.0.1"},
		timeout: timeout, probe: &v1.Probe{ProbeHandler: handler},
	})
}

// namedPort is the port named "web"; nothing listens there.
const namedPort = 1

const (
	// patience is the timeout of a probe that must be served, even on a
	// busy host; haste that of one that must not.
	patience = 2 * time.Minute
	haste    = time.Second
)

// closedPort returns a port that refuses connections and that no other process
// can get.
func closedPort(t *testing.T) int32 {
	t.Helper()
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(s) })
	if err := unix.Bind(s, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(s)
	if err != nil {
		t.Fatal(err)
	}
	return int32(name.(*unix.SockaddrInet4).Port)
}

// judge compares a result with the desired one: "ok", "warning", "failed" or
// "error", each with a part of the text.
func judge(t *testing.T, a probeResult, err error, want, text string) {
	t.Helper()
	got := "failed"
	switch {
	case err != nil:
		got, a.text = "error", err.Error()
	case a.warning && a.ok:
		got = "warning"
	case a.ok:
		got = "ok"
	}
	if got != want || !strings.Contains(a.text, text) {
		t.Errorf("%s: %q, want %s: %q", got, a.text, want, text)
	}
}

func TestExec(t *testing.T) {
	for name, c := range map[string]struct {
		result     ExecResult
		err        error
		want, text string
	}{
		"exit 0":        {ExecResult{Output: []byte("fine")}, nil, "ok", ""},
		"exit 1":        {ExecResult{Output: []byte("no table"), ExitCode: 1}, nil, "failed", "no table"},
		"silent exit 7": {ExecResult{ExitCode: 7}, nil, "failed", "command exited with 7"},
		"timed out":     {ExecResult{TimedOut: true}, nil, "failed", `timed out: ["ready" "--now"] did not end within 2s`},
		"runtime":       {ExecResult{}, errors.New("no shim"), "error", "no shim"},
	} {
		t.Run(name, func(t *testing.T) {
			exec := execFunc(func(_ context.Context, id string, command []string, timeout time.Duration) (ExecResult, error) {
				if id != "id-1" || fmt.Sprint(command) != "[ready --now]" || timeout != 2*time.Second {
					t.Errorf("ran %v in %s within %s", command, id, timeout)
				}
				return c.result, c.err
			})
			a, err := once(t, v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"ready", "--now"}}}, 2*time.Second, exec)
			judge(t, a, err, c.want, c.text)
		})
	}
	exec := execFunc(func(context.Context, string, []string, time.Duration) (ExecResult, error) {
		return ExecResult{Output: make([]byte, 1<<20), ExitCode: 1}, nil
	})
	if a, _ := once(t, v1.ProbeHandler{Exec: &v1.ExecAction{}}, time.Second, exec); len(a.text) != maxOutput {
		t.Errorf("%d bytes of output are kept", len(a.text))
	}
}

func TestNoAction(t *testing.T) {
	a, err := once(t, v1.ProbeHandler{}, time.Second, nil)
	judge(t, a, err, "error", "set exec, httpGet")
}

// server responds as the paths in the tests below state.
func server() *http.ServeMux {
	mux := http.NewServeMux()
	for _, code := range []int{199, 200, 204, 299, 304, 399, 400, 404, 500, 503} {
		mux.HandleFunc(fmt.Sprint("/", code), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		// The request's properties are returned in the Location of a
		// redirect to another host, which the warning quotes.
		w.Header().Set("Location", "http://elsewhere.invalid/?"+strings.Join([]string{
			"ua=" + r.Header.Get("User-Agent"), "accept=" + strings.Join(r.Header["Accept"], "+"), "host=" + r.Host,
			"x=" + strings.Join(r.Header["X-Probe"], "+"), "q=" + r.URL.RawQuery,
			"encoding=" + r.Header.Get("Accept-Encoding"), "close=" + fmt.Sprint(r.Close),
		}, ";"))
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/hops/{n}", func(w http.ResponseWriter, r *http.Request) {
		n := 0
		_, _ = fmt.Sscan(r.PathValue("n"), &n)
		if n > 0 {
			http.Redirect(w, r, fmt.Sprint("/hops/", n-1), http.StatusFound)
		}
	})
	mux.HandleFunc("/moved-to-404",
		func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/404", http.StatusFound) })
	mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.invalid/login", http.StatusFound)
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter,
		_ *http.Request) {
		w.Header().Set("X-A", strings.Repeat("a", 2*maxHeaders))
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/stuck", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte("begun"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	return mux
}

func TestHTTP(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // a proxy would fail
	plain, secure := httptest.NewServer(server()), httptest.NewTLSServer(server())
	defer plain.Close()
	defer secure.Close()
	header := func(pairs ...string) []v1.HTTPHeader {
		var list []v1.HTTPHeader
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, v1.HTTPHeader{Name: pairs[i], Value: pairs[i+1]})
		}
		return list
	}
	for name, c := range map[string]struct {
		get        v1.HTTPGetAction
		want, text string
	}{
		"200":                    {v1.HTTPGetAction{Path: "/200"}, "ok", ""},
		"a path without a slash": {v1.HTTPGetAction{Path: "200"}, "ok", ""},
		"204":                    {v1.HTTPGetAction{Path: "/204"}, "ok", ""},
		"304 is success": {v1.HTTPGetAction{Path: "/304"}, "warning",
			"Probe terminated redirects, Response body: "},
		"399 is success":             {v1.HTTPGetAction{Path: "/399"}, "warning", ""},
		"400":                        {v1.HTTPGetAction{Path: "/400"}, "failed", "HTTP probe failed with statuscode: 400"},
		"503":                        {v1.HTTPGetAction{Path: "/503"}, "failed", "503"},
		"10 redirects":               {v1.HTTPGetAction{Path: "/hops/9"}, "ok", ""},
		"too many redirects":         {v1.HTTPGetAction{Path: "/hops/11"}, "failed", "stopped after 10 redirects"},
		"large headers":              {v1.HTTPGetAction{Path: "/headers"}, "failed", "headers exceeded"},
		"a redirect to a failure":    {v1.HTTPGetAction{Path: "/moved-to-404"}, "failed", "404"},
		"a redirect to another host": {v1.HTTPGetAction{Path: "/elsewhere"}, "warning", "http://elsewhere.invalid/login"},
		"a body without end":         {v1.HTTPGetAction{Path: "/endless"}, "ok", ""},
		"a body that stops":          {v1.HTTPGetAction{Path: "/stuck"}, "failed", "failed to read the response"},
		"no answer":                  {v1.HTTPGetAction{Path: "/silent"}, "failed", "deadline exceeded"},
		"default headers": {v1.HTTPGetAction{Path: "/echo?a=b"}, "warning",
			"ua=podstead-probe/1;accept=*/*;host=127.0.0.1:PORT;x=;q=a=b;encoding=;close=true"},
		"headers": {
			v1.HTTPGetAction{Path: "/echo",
				HTTPHeaders: header("x-probe", "1", "X-Probe", "2", "user-agent", "mine", "Accept", "text/plain")}, "warning",
			"ua=mine;accept=text/plain;host=127.0.0.1:PORT;x=1+2;"},
		"headers removed": {v1.HTTPGetAction{Path: "/echo", HTTPHeaders: header("User-Agent", "", "Accept", "")},
			"warning", "ua=;accept=;"},
		"host header": {v1.HTTPGetAction{Path: "/echo", HTTPHeaders: header("Host", "shop.example")},
			"warning", "host=shop.example;"},
		"host by name":        {v1.HTTPGetAction{Path: "/echo", Host: "localhost"}, "warning", "host=localhost:PORT;"},
		"TLS is not verified": {v1.HTTPGetAction{Path: "/200", Scheme: v1.URISchemeHTTPS}, "ok", ""},
		"plain to a TLS port": {v1.HTTPGetAction{Path: "/200", Scheme: "tls-port"}, "failed", "400"},
		"a port by name": {v1.HTTPGetAction{Path: "/200", Port: intstr.FromString("web")}, "failed",
			"127.0.0.1:1: connect: connection refused"},
		"an unknown port name": {v1.HTTPGetAction{Path: "/200", Port: intstr.FromString("wed")}, "error",
			`port "wed" is neither a number from 1 to 65535 nor the name of a port of container "c"`},
		"a number too large":         {v1.HTTPGetAction{Path: "/200", Port: intstr.FromInt32(65536)}, "error", "65536"},
		"a host that does not exist": {v1.HTTPGetAction{Path: "/200", Host: "unknown.invalid"}, "failed", "unknown.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			s := plain
			switch c.get.Scheme {
			case v1.URISchemeHTTPS:
				s = secure
			case "tls-port":
				s, c.get.Scheme = secure, v1.URISchemeHTTP
			}
			port := s.Listener.Addr().(*net.TCPAddr).Port
			if c.get.Port == (intstr.IntOrString{}) {
				c.get.Port = intstr.FromInt32(int32(port))
			}
			timeout := patience
			if c.get.Path == "/silent" || c.get.Path == "/stuck" || c.get.Host == "unknown.invalid" {
				timeout = haste
			}
			a, err := once(t, v1.ProbeHandler{HTTPGet: &c.get}, timeout, nil)
			for c.get.Path == "/stuck" && !strings.Contains(a.text, c.text) && timeout < patience {
				timeout *= 4 // the timeout passed before the request
				a, err = once(t, v1.ProbeHandler{HTTPGet: &c.get}, timeout, nil)
			}
			judge(t, a, err, c.want, strings.ReplaceAll(c.text, "PORT", fmt.Sprint(port)))
		})
	}
}

func TestNoAddress(t *testing.T) {
	a := newActions(Config{})
	_, err := a.run(t.Context(), probeRequest{timeout: time.Second, target: target{container: &v1.Container{}},
		probe: &v1.Probe{
			ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(80)}},
		}})
	judge(t, probeResult{}, err, "error", "the pod has no IP address")
}

func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	probe := v1.TCPSocketAction{Port: intstr.FromInt32(int32(l.Addr().(*net.TCPAddr).Port))}
	defer l.Close()
	a, err := once(t, v1.ProbeHandler{TCPSocket: &probe}, patience, nil)
	judge(t, a, err, "ok", "")
	probe.Port = intstr.FromInt32(closedPort(t))
	a, err = once(t, v1.ProbeHandler{TCPSocket: &probe}, patience, nil)
	judge(t, a, err, "failed", "connection refused")
	probe.Port = intstr.FromString("nothing")
	a, err = once(t, v1.ProbeHandler{TCPSocket: &probe}, patience, nil)
	judge(t, a, err, "error", `port "nothing"`)
}

func TestGRPC(t *testing.T) {
	listen := func() (net.Listener, int32) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l, int32(l.Addr().(*net.TCPAddr).Port)
	}
	serve := func(register func(*grpc.Server), opts ...grpc.ServerOption) int32 {
		l, port := listen()
		s := grpc.NewServer(opts...)
		register(s)
		go func() { _ = s.Serve(l) }()
		t.Cleanup(s.Stop)
		return port
	}
	var agent string
	healthy := serve(func(s *grpc.Server) {
		h := health.NewServer()
		h.SetServingStatus("shop", grpc_health_v1.HealthCheckResponse_SERVING)
		h.SetServingStatus("sick", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		grpc_health_v1.RegisterHealthServer(s, h)
	},
		grpc.UnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if md, ok := metadata.FromIncomingContext(ctx); ok {
				agent = strings.Join(md.Get("user-agent"), " ")
			}
			return next(ctx, r)
		}))
	without := serve(func(*grpc.Server) {})
	_, silent := listen() // accepts, and never responds
	for name, c := range map[string]struct {
		port       int32
		service    *string
		want, text string
	}{
		"serving":             {healthy, nil, "ok", ""},
		"service serving":     {healthy, ptr("shop"), "ok", ""},
		"service not serving": {healthy, ptr("sick"), "failed", `responded with "NOT_SERVING"`},
		"service unknown":     {healthy, ptr("other"), "failed", "unknown service"},
		"no health service":   {without, nil, "failed", "does not implement the grpc health protocol"},
		"a server that hangs": {silent, nil, "failed", "timeout: "},
		"closed port":         {closedPort(t), nil, "failed", "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := patience
			if c.port == silent {
				timeout = haste
			}
			a, err := once(t, v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: c.port, Service: c.service}}, timeout, nil)
			judge(t, a, err, c.want, c.text)
		})
	}
	if !strings.HasPrefix(agent, "podstead-probe/1") {
		t.Errorf("user agent %q", agent)
	}
}

func ptr[T any](v T) *T { return &v }
