package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi/access"
)

// logNode is a node with pods, their statuses and their logs.
type logNode struct {
	pods []*v1.Pod
	root string

	mu       sync.Mutex
	statuses map[types.UID]v1.PodStatus
	changed  []chan struct{}
}

func (n *logNode) Pods() []*v1.Pod { return n.pods }
func (n *logNode) Get(uid types.UID) (v1.PodStatus, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	st, ok := n.statuses[uid]
	return st, ok
}
func (n *logNode) Subscribe() (<-chan struct{}, func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ch := make(chan struct{}, 1)
	n.changed = append(n.changed, ch)
	return ch, func() {}
}
func (n *logNode) List() []v1.Event {
	event := func(ns, name, reason string) v1.Event {
		return v1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: ns},
			InvolvedObject: v1.ObjectReference{Kind: "Pod", Name: name, Namespace: ns},
			Reason:         reason, Source: v1.EventSource{Host: "N1"},
		}
	}
	return []v1.Event{
		event("default", "web-n1", "Started"), event("prod", "web-n1", "Killing"), event("default", "gone-n1", "Failed"),
		{InvolvedObject: v1.ObjectReference{Kind: "Node", Name: "web"}, Reason: "Node"},
	}
}
func (n *logNode) remove(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.statuses, uid)
	for _, ch := range n.changed {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (n *logNode) write(t *testing.T, path, text string) {
	t.Helper()
	path = filepath.Join(n.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func line(text string) string { return "2026-01-31T12:00:00.000000005Z stdout F " + text + "\n" }

func newLogNode(t *testing.T) *logNode {
	t.Helper()
	terminated := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 1}}
	pod := func(name string, status v1.PodStatus) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-n1", Namespace: "default", UID: types.UID(name)},
			Spec: v1.PodSpec{
				RestartPolicy: v1.RestartPolicyAlways, InitContainers: []v1.Container{{Name: "setup"}},
				Containers: []v1.Container{{Name: "main"}, {Name: "side"}},
			},
			Status: status,
		}
	}
	n := &logNode{root: t.TempDir(), statuses: map[types.UID]v1.PodStatus{}}
	n.pods = []*v1.Pod{
		pod("web", v1.PodStatus{
			InitContainerStatuses: []v1.ContainerStatus{
				{Name: "setup", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}},
			ContainerStatuses: []v1.ContainerStatus{
				{Name: "main", RestartCount: 2, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
					LastTerminationState: terminated},
				{Name: "side",
					State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff",
						Message: "no such image"}}},
			},
		}),
		pod("loop", v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
			{Name: "main", RestartCount: 2,
				State:                v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: terminated},
		}}),
		pod("ended", v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
			{Name: "main", RestartCount: 2, State: terminated, LastTerminationState: terminated},
		}}),
		pod("cleared", v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
			{Name: "main", RestartCount: 3, State: terminated, LastTerminationState: terminated},
		}}),
	}
	n.write(t, "cleared/main/3.log", line("three"))
	for _, p := range n.pods {
		n.statuses[p.UID] = p.Status
		if p.Name == "cleared-n1" {
			continue // the instances before its last are removed
		}
		for i, text := range []string{"zero", "one", "two"} {
			n.write(t, filepath.Join(string(p.UID), "main", string(rune('0'+i))+".log"), line(text))
		}
	}
	n.write(t, "web/setup/0.log", line("set up"))
	n.write(t, "secret.log", line("secret"))
	n.write(t, "secret/0.log", line("secret"))
	return n
}

func (n *logNode) sources() Sources {
	return Sources{
		Kube: http.NotFoundHandler(),
		Pods: n, Manifests: fakeSources{}, Events: n, Statuses: n,
		LogDirectory: func(p *v1.Pod) string { return filepath.Join(n.root, string(p.UID)) },
		ManifestName: func(p *v1.Pod) string { return strings.TrimSuffix(p.Name, "-n1") },
	}
}

func serveLogs(t *testing.T, n *logNode, allowed access.Class) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(serveClasses(Routes(n.sources()), allowed))
	t.Cleanup(srv.Close)
	return srv
}

// serveLogsShortly serves with the daemon's timeouts, shortened, but long enough for a
// busy host.
func serveLogsShortly(t *testing.T, n *logNode) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(serveClasses(Routes(n.sources()), access.Logs))
	srv.Config.ReadTimeout = 5 * time.Second
	srv.Config.WriteTimeout = 5 * time.Second
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestContainerLogs(t *testing.T) {
	n := newLogNode(t)
	srv := serveLogs(t, n, access.Logs)
	for _, c := range []struct {
		path string
		code int
		want string
	}{
		{"default/web-n1/main", 200, "two\n"},
		{"default/web/main", 200, "two\n"},
		{"default/web/setup", 200, "set up\n"},
		{"default/web/main?previous=true", 200, "one\n"},
		{"default/web/main?previous=true&follow=true", 200, "one\n"},
		{"default/web/setup?follow", 200, "set up\n"},
		{"default/loop/main", 200, "two\n"},
		{"default/loop/main?previous=1", 200, "two\n"},
		{"default/ended/main?previous=1", 200, "one\n"},
		{"default/cleared/main?previous=1", 200, "three\n"},
		{"default/web/main?timestamps=true", 200, "2026-01-31T12:00:00.000000005Z two\n"},
		{"default/web/main?limitBytes=2", 200, "tw"},
		{"default/web/main?tailLines=0", 200, ""},
		{"default/web/main?sinceSeconds=60", 200, ""},
		{"default/web/main?sinceSeconds=9223372036854775807", 200, "two\n"},
		{"default/web/main?sinceTime=2026-01-31T11:00:00Z", 200, "two\n"},
		{"default/web/main?sinceTime=2026-01-31T13:00:00%2B00:00", 200, ""},
		{"default/web/side", 400, "waiting to start: ImagePullBackOff: no such image"},
		{"default/web/setup?previous=true", 400, "no previous"},
		{"default/nosuch/main", 404, "pods: web, loop"},
		{"prod/web/main", 404, "there are no pods"},
		{"default/web/nosuch", 404, "containers: setup, main, side"},
		{"default/web/main?tailLines=-1", 400, "tailLines"},
		{"default/web/main?tailLines=x", 400, "tailLines"},
		{"default/web/main?limitBytes=0", 400, "limitBytes"},
		{"default/web/main?sinceSeconds=0", 400, "sinceSeconds"},
		{"default/web/main?sinceTime=yesterday", 400, "sinceTime"},
		{"default/web/main?sinceTime=2026-01-31T11:00:00Z&sinceSeconds=1", 400, "only one of them"},
		{"default/web/main?follow=maybe", 400, "follow"},
	} {
		code, body := fetch(t, srv.URL+"/containerLogs/"+c.path)
		if code != c.code || code == 200 && body != c.want || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %q, want %d %q", c.path, code, body, c.code, c.want)
		}
	}
}

// In a fast crash loop, logs may have been removed and created since the status was
// generated.
func TestPreviousLogOfFastCrashLoop(t *testing.T) {
	n := newLogNode(t)
	srv := serveLogs(t, n, access.Logs)
	for _, c := range []struct {
		there []int
		code  int
		want  string
	}{{[]int{5, 6}, 200, "5\n"}, {[]int{6}, 400, "no previous"}} {
		for i := range 10 {
			_ = os.Remove(filepath.Join(n.root, "web/main", fmt.Sprint(i)+".log"))
		}
		for _, i := range c.there {
			n.write(t, fmt.Sprintf("web/main/%d.log", i), line(fmt.Sprint(i)))
		}
		if code, body := fetch(t, srv.URL+"/containerLogs/default/web/main?previous=true"); code != c.code ||
			!strings.Contains(body, c.want) {
			t.Errorf("of %v: %d %q, want %d %q", c.there, code, body, c.code, c.want)
		}
	}
}

// No path leads out of the log directories of pods.
func TestContainerLogsTraversal(t *testing.T) {
	n := newLogNode(t)
	srv := serveLogs(t, n, access.Logs)
	addr := strings.TrimPrefix(srv.URL, "http://")
	for _, path := range []string{
		"default/web/..", "default/web/../secret", "default/web/%2e%2e", "default/web/..%2f..%2fsecret",
		"default/web/..%2Fsecret",
		"default/../secret", "default/..%2Fsecret/main", "default/%2e%2e/secret", "..%2f/web/main",
		"default/web/main%2f..%2f..%2fsecret",
		"default/web/main%00", "default/web/.", "default//web/main", "default/web/", "default/web-n1%2fmain/0.log",
		"//etc/passwd",
	} {
		// Over a plain connection, because an HTTP client would clean the path.
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn,
			"GET /containerLogs/"+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = conn.Close()
		if resp.StatusCode < 300 || strings.Contains(string(body), "secret\n") {
			t.Errorf("%s: %d %q", path, resp.StatusCode, body)
		}
	}
}

func TestLogsRequireAccessClass(t *testing.T) {
	srv := serveLogs(t, newLogNode(t), access.Health|access.Read)
	if code, body := fetch(t, srv.URL+"/containerLogs/default/web/main"); code != 404 || strings.Contains(body, "two") {
		t.Errorf("a listener for readers of states answers %d %q", code, body)
	}
}

// followLog opens a stream and returns its lines one by one.
func followLog(t *testing.T, url string) *bufio.Reader {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != 200 {
		t.Fatalf("%s: %s", url, resp.Status)
	}
	return bufio.NewReader(resp.Body)
}

func mustRead(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	if got, err := r.ReadString('\n'); err != nil || got != want+"\n" {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

// Following survives the server's timeouts for short responses, a restart of the container and
// a client that does not read, and ends with the pod.
func TestContainerLogsFollow(t *testing.T) {
	t.Parallel()
	n := newLogNode(t)
	srv := serveLogsShortly(t, n)
	url := srv.URL + "/containerLogs/default/web/main?follow=true"
	// The client does not read, although more is sent than the sockets can buffer.
	stalled, err := net.Dial("tcp", strings.TrimPrefix(srv.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer stalled.Close()
	if _, err := io.WriteString(stalled,
		"GET /containerLogs/default/web/main?follow=true HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := followLog(t, url)
	mustRead(t, r, "two")
	big := strings.Repeat("x", 15<<10)
	for range 1000 {
		n.write(t, "web/main/2.log", line(big))
		mustRead(t, r, big)
	}
	// Wait for the server's timeouts to pass; there is no event for that.
	<-time.After(2 * srv.Config.ReadTimeout)
	n.write(t, "web/main/3.log", line("three"))
	mustRead(t, r, "three")
	n.remove("web")
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("the stream of a pod that is gone ends with %q, %v", rest, err)
	}
}

// A shutdown of the daemon aborts the streams at once: it is not the end of the log.
func TestShutdownAbortsStreams(t *testing.T) {
	n := newLogNode(t)
	s := New(Config{Socket: filepath.Join(t.TempDir(), "s"), Log: slog.New(slog.DiscardHandler)}, n.sources())
	s.shutdownTimeout = time.Hour // and would be seen if it were needed
	ctx, cancel := context.WithCancel(t.Context())
	l, err := s.Listen(ctx)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.cfg.Socket)
	}}}
	resp, err := c.Get("http://podstead/containerLogs/default/web/main?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r := bufio.NewReader(resp.Body)
	mustRead(t, r, "two")
	cancel()
	if _, err := r.ReadByte(); err != io.ErrUnexpectedEOF {
		t.Errorf("a stream that the daemon breaks off ends with %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTooManyLogStreams(t *testing.T) {
	n := newLogNode(t)
	srv := serveLogs(t, n, access.Logs)
	url := srv.URL + "/containerLogs/default/web/main?follow=true"
	for range maxLogStreams {
		mustRead(t, followLog(t, url), "two")
	}
	if code, body := fetch(t, url); code != http.StatusTooManyRequests {
		t.Errorf("one too many: %d %q", code, body)
	}
}

func TestEvents(t *testing.T) {
	n := newLogNode(t)
	srv := serveLogs(t, n, access.Read)
	for query, want := range map[string]string{
		"":                           "Started Killing Failed Node",
		"?namespace=default":         "Started Failed",
		"?pod=web":                   "Started Killing",
		"?pod=web-n1&namespace=prod": "Killing",
		"?pod=gone":                  "Failed",
		"?pod=nosuch":                "",
	} {
		code, body := fetch(t, srv.URL+"/podstead/v1/events"+query)
		var list v1.EventList
		if err := json.Unmarshal([]byte(body), &list); err != nil || code != 200 || list.Kind != "EventList" ||
			list.Items == nil {
			t.Fatalf("%s: %d %q: %v", query, code, body, err)
		}
		var got []string
		for _, e := range list.Items {
			got = append(got, e.Reason)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: got %q, want %q", query, s, want)
		}
	}
}

func TestHasEnded(t *testing.T) {
	ended := func(code int32) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}
	}
	always, onFailure, never := v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyOnFailure,
		v1.ContainerRestartPolicyNever
	for _, c := range []struct {
		name, container string
		policy          v1.RestartPolicy
		phase           v1.PodPhase
		state           v1.ContainerState
		want            bool
	}{
		{"running", "main", "Never", "Running", v1.ContainerState{Running: &v1.ContainerStateRunning{}}, false},
		{"always", "main", "Always", "Running", ended(0), false},
		{"on failure, well", "main", "OnFailure", "Running", ended(0), true},
		{"on failure, ill", "main", "OnFailure", "Running", ended(1), false},
		{"never", "main", "Never", "Running", ended(1), true},
		{"phase", "main", "Always", "Failed", v1.ContainerState{}, true},
		{"init done", "setup", "Always", "Running", ended(0), true},
		{"init failed", "setup", "Always", "Pending", ended(1), false},
		{"init failed, never", "setup", "Never", "Pending", ended(1), true},
		{"sidecar", "side", "Never", "Running", ended(0), false},
		{"its own policy, well", "own", "Always", "Running", ended(0), true},
		{"its own policy, ill", "own", "Never", "Running", ended(1), false},
		{"a rule may start it", "ruled", "Never", "Running", ended(1), false},
		{"init done, rules are not asked", "ruledinit", "Never", "Running", ended(0), true},
		{"init failed, a rule may start it", "ruledinit", "Never", "Pending", ended(1), false},
		{"a rule, but the pod has ended", "ruled", "Never", "Failed", ended(1), true},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{
			RestartPolicy: c.policy,
			InitContainers: []v1.Container{{Name: "setup"}, {Name: "side", RestartPolicy: &always},
				{Name: "ruledinit", RestartPolicy: &never,
					RestartPolicyRules: []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestart}}}},
			Containers: []v1.Container{{Name: "main"}, {Name: "own", RestartPolicy: &onFailure},
				{Name: "ruled", RestartPolicy: &never,
					RestartPolicyRules: []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestart}}}},
		}}
		found, err := findContainer(pod, c.container)
		if err != nil {
			t.Fatal(err)
		}
		st := v1.PodStatus{Phase: c.phase}
		if s := []v1.ContainerStatus{{Name: c.container, State: c.state}}; c.container != "main" && c.container != "own" &&
			c.container != "ruled" {
			st.InitContainerStatuses = s
		} else {
			st.ContainerStatuses = s
		}
		if got := found.hasEnded(st); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The end of a log comes after its last bytes: without Content-Length, which gives both in one
// read.
func TestLogIsSentInChunks(t *testing.T) {
	n := newLogNode(t)
	srv := serveLogs(t, n, access.Logs)
	for _, path := range []string{"/containerLogs/default/web-n1/main", "/containerLogs/default/web-n1/main?tailLines=0",
		"/api/v1/namespaces/default/pods/web-n1/log?container=main"} {
		response, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.ContentLength != -1 || strings.Join(response.TransferEncoding, "") != "chunked" {
			t.Errorf("GET %s: Content-Length %d, Transfer-Encoding %q", path, response.ContentLength, response.TransferEncoding)
		}
	}
}

// A container without a log reports what it, or its pod, waits for.
func TestWaitsFor(t *testing.T) {
	for want, c := range map[string]struct {
		pod v1.PodStatus
		w   *v1.ContainerStateWaiting
	}{
		"":                    {},
		": ContainerCreating": {w: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}},
		": ErrImagePull: no route": {w: &v1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no route"},
			pod: v1.PodStatus{Message: "other"}},
		": DependencyNotReady: waits for pod default/db": {
			v1.PodStatus{Reason: "DependencyNotReady", Message: "waits for pod default/db"},
			&v1.ContainerStateWaiting{Reason: "ContainerCreating"}},
		": OutOfcpu: no room": {pod: v1.PodStatus{Reason: "OutOfcpu", Message: "no room"}},
	} {
		if got := waitsFor(&v1.Pod{Status: c.pod}, c.w); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The runtime may write the last lines after it has reported the exit: they are the cause of a crash.
func TestLogOfEndedContainerIsComplete(t *testing.T) {
	n := newLogNode(t)
	srv := serveLogs(t, n, access.Logs)
	n.write(t, "ended/main/2.log", line("before the last"))
	runtime, err := os.OpenFile(filepath.Join(n.root, "ended/main/2.log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	last := line("the last")
	time.AfterFunc(50*time.Millisecond, func() {
		_, _ = runtime.WriteString(last)
		_ = runtime.Close()
	})
	if code, body := fetch(t, srv.URL+"/containerLogs/default/ended/main?tailLines=1"); code != 200 ||
		body != "the last\n" {
		t.Errorf("%d %q", code, body)
	}
}
