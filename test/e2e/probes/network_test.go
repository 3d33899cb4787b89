package probes

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// countingServer is a server of this test that a probe connects to instead of the pod.
type countingServer struct {
	sync.Mutex
	times   []time.Time
	headers http.Header
	path    string
	healthy bool
}

func (a *countingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.Lock()
	defer a.Unlock()
	a.times = append(a.times, time.Now())
	a.headers, a.path = r.Header.Clone(), r.URL.RequestURI()
	if !a.healthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// count returns the number of requests.
func (a *countingServer) count() int {
	a.Lock()
	defer a.Unlock()
	return len(a.times)
}

func portOf(t *testing.T, address net.Addr) int {
	t.Helper()
	_, port, err := net.SplitHostPort(address.String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A probe uses the host, scheme, path, headers, delay and period of its manifest.
func TestProbesOfOtherHosts(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		readiness := &countingServer{}
		server := httptest.NewTLSServer(readiness)
		t.Cleanup(server.Close)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		n.WriteManifest("p.yaml", probedPod("p", harness.UntilTerm, fmt.Sprintf(`
      readinessProbe:
        httpGet: {scheme: HTTPS, host: 127.0.0.1, port: %d, path: "/at?a=b", httpHeaders: [{name: X-Probe, value: mine}, {name: Host, value: there}]}
        initialDelaySeconds: 2
        periodSeconds: 1
        timeoutSeconds: 300
        successThreshold: 3
        failureThreshold: 1
      livenessProbe: {tcpSocket: {host: 127.0.0.1, port: %d}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1}
`, portOf(t, server.Listener.Addr()), portOf(t, listener.Addr()))))
		n.MustStart()
		first := n.AwaitRunning("p")
		n.Await("the probe connects", func() error {
			if count := readiness.count(); count < 5 {
				return fmt.Errorf("%d times", count)
			}
			return nil
		})
		p := awaitUnready(n, "p")
		readiness.Lock()
		started := p.Status.ContainerStatuses[0].State.Running.StartedAt.Time
		// On a busy machine a probe is late, and the next one may be in time.
		for i, at := range readiness.times {
			if delay, want := at.Sub(started), time.Duration(2+i)*time.Second; delay < want-100*time.Millisecond {
				t.Errorf("probe %d came %s after the start, want at least %s", i, delay, want)
			}
		}
		if readiness.path != "/at?a=b" || readiness.headers.Get("X-Probe") != "mine" {
			t.Errorf("the probe requested %s with %v", readiness.path, readiness.headers)
		}
		readiness.healthy = true
		before := len(readiness.times)
		readiness.Unlock()
		n.AwaitReady("p")
		if count := readiness.count() - before; count < 3 {
			t.Errorf("ready after %d successes, want 3", count)
		}
		n.MustStillRun("p", first)
		// The server is stopped: the liveness probe fails.
		listener.Close()
		n.AwaitOther("p", first)
	})
}

// A gRPC server reports a service as serving and later as not serving. The container ignores
// SIGTERM, and the probe has its own short grace period.
func TestProbeGRPC(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		listener, err := net.Listen("tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		said := health.NewServer()
		said.SetServingStatus("db", healthpb.HealthCheckResponse_SERVING)
		said.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
		server := grpc.NewServer()
		healthpb.RegisterHealthServer(server, said)
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		// With the host's network the pod has this test's address.
		n.WriteManifest("p.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 120
  containers:
    - name: main
      image: %s
      command: ["sh", "-c", "trap '' TERM; sleep 100000 & wait; sleep 100000"]
      livenessProbe: {grpc: {port: %d, service: db}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 2, terminationGracePeriodSeconds: 1}
      readinessProbe: {grpc: {port: %[2]d}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1}
`, testbed.BusyboxImage, portOf(t, listener.Addr())))
		n.MustStart()
		first := n.AwaitRunning("p")
		awaitUnready(n, "p")
		said.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
		n.AwaitReady("p")
		n.MustStillRun("p", first)
		said.SetServingStatus("db", healthpb.HealthCheckResponse_NOT_SERVING)
		n.AwaitOther("p", first)
		said.SetServingStatus("db", healthpb.HealthCheckResponse_SERVING)
		n.AwaitStatus("p", "one restart", func(p v1.Pod) error {
			if c := p.Status.ContainerStatuses; len(c) != 1 || c[0].RestartCount < 1 {
				return fmt.Errorf("container statuses are %+v", c)
			}
			return nil
		})
	})
}
