package httpapi

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/kubeapi"
	"github.com/podstead/podstead/httpapi/streaming"
	"github.com/podstead/podstead/internal/usage"
)

// logDirectoryWithTraps creates a log directory with links that lead out of it.
func logDirectoryWithTraps(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "log")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(root, "pods"), 0o755))
	must(os.WriteFile(filepath.Join(dir, "secret"), []byte("precious"), 0o644))
	must(os.WriteFile(filepath.Join(root, "syslog"), []byte("line one\nline two\n"), 0o644))
	must(os.WriteFile(filepath.Join(root, "pods", `<b>&"`), []byte("x"), 0o644))
	must(os.Symlink(filepath.Join(root, "syslog"), filepath.Join(root, "inside")))
	must(os.Symlink(filepath.Join(dir, "secret"), filepath.Join(root, "outside")))
	must(os.Symlink("../secret", filepath.Join(root, "up")))
	must(os.Symlink(dir, filepath.Join(root, "directory")))
	must(syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644))
	return root
}

func TestNodeLogsStayInDirectory(t *testing.T) {
	h := nodeLogs(logDirectoryWithTraps(t))
	for path, want := range map[string]struct {
		code  int
		words string
	}{
		"/logs/":                    {200, `<a href="./syslog">syslog</a>`},
		"/logs/pods":                {301, ""},
		"/logs/pods/":               {200, `&lt;b&gt;&amp;&#34;`},
		"/logs/syslog":              {200, "line two"},
		"/logs/inside":              {200, "line two"},
		"/logs/none":                {404, "no such file"},
		"/logs/syslog/x":            {403, ""},
		"/logs/outside":             {403, "escapes"},
		"/logs/up":                  {403, "escapes"},
		"/logs/directory/secret":    {403, "escapes"},
		"/logs/../secret":           {404, ""},
		"/logs/%2e%2e/secret":       {404, ""},
		"/logs/..%2fsecret":         {404, ""},
		"/logs/pods%2f..%2f..%2fx":  {404, ""},
		"/logs//../../../../secret": {404, ""},
		"/logs/pipe":                {403, "not a regular file or directory"},
		"/logs/a%00b":               {403, ""},
		"/logs/?query=ssh":          {400, "journalctl"},
	} {
		w := httptest.NewRecorder()
		h(w, httptest.NewRequest("GET", path, nil))
		if w.Code != want.code || !strings.Contains(w.Body.String(), want.words) ||
			strings.Contains(w.Body.String(), "precious") {
			t.Errorf("GET %s = %d %q, want %d %q", path, w.Code, w.Body, want.code, want.words)
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/logs/syslog", nil)
	r.Header.Set("Range", "bytes=-5")
	h(w, r)
	if w.Code != 206 || w.Body.String() != " two\n" {
		t.Errorf("a range = %d %q", w.Code, w.Body)
	}
}

// recordingNode is a node with one pod. It records removals.
type recordingNode struct {
	fakeSources
	removed []string
}

func (f *recordingNode) Pods() []*v1.Pod {
	return []*v1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Name: "web-n1", Namespace: "default", UID: "u-1"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main"}}},
		Status: v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
			Name: "main", ContainerID: "containerd://c-1", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		}}},
	}}
}
func (f *recordingNode) PersistentVolumes(context.Context, bool) ([]api.PersistentVolume, error) {
	return nil, nil
}
func (f *recordingNode) RemovePersistentVolume(namespace, name string) error {
	if strings.ContainsAny(namespace+name, "/\x00") || strings.Contains(namespace+name, "..") {
		f.removed = append(f.removed, namespace+" "+name)
	}
	return fs.ErrNotExist
}
func (f *recordingNode) Exec(context.Context, string, []string, streaming.Options) (string, error) {
	return "", errors.New("reached the runtime")
}
func (f *recordingNode) Attach(context.Context, string, streaming.Options) (string, error) {
	return "", errors.New("reached the runtime")
}
func (f *recordingNode) Run(context.Context, string, []string) ([]byte, error) {
	return []byte("reached the runtime"), nil
}
func (f *recordingNode) Dial(context.Context, types.UID, uint16) (streaming.PortConn, error) {
	return nil, errors.New("reached the runtime")
}

// TestPathTraversalIsRejected puts traversal sequences into each parameter of each route, in
// encoded form. They must not give a reader access to other routes, or an admin to other
// files or objects.
func TestPathTraversalIsRejected(t *testing.T) {
	b := newTestServer(t).withTokens()
	logs := logDirectoryWithTraps(t)
	node := &recordingNode{}
	b.src = node.sources()
	b.src.Pods, b.src.Volumes, b.src.Streams = node, node, node
	b.src.Usage = kubeapi.Usage{Pods: node.Pods, Read: func(context.Context) (*usage.Node, *usage.Pods, error) {
		return &usage.Node{}, &usage.Pods{}, nil
	}}
	b.src.ManifestName = func(p *v1.Pod) string { return strings.TrimSuffix(p.Name, "-n1") }
	b.src.LogDirectory = func(p *v1.Pod) string { return filepath.Join(logs, "pods") }
	b.src.Kubelet = Kubelet{LogRoot: logs, Checkpoints: filepath.Join(b.dir, "checkpoints"),
		Checkpoint: func(context.Context, string, string, time.Duration) error {
			return errors.New("reached the runtime")
		}}
	b.start()
	send := func(method, path, token string) (int, string) {
		t.Helper()
		conn, err := tls.Dial("tcp", b.tlsAddress, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", method, path,
			token)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s %q: %v", method, path, err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	tricks := []string{
		"..", "%2e%2e", "..%2f..%2f..%2fsecret", "%2e%2e%2f%2e%2e%2fsecret", "..%5c..%5csecret", "%2fetc%2fpasswd", "a%00b",
		"web-n1%2f..%2f..%2fsecret",
		".", "%252e%252e%252f", "web-n1%0d%0aX-Injected:%20yes", "*", "%7b%7d", strings.Repeat("a", 5000),
	}
	param := regexp.MustCompile(`\{(\w+)\}`)
	right := map[string]string{"namespace": "default", "pod": "web-n1", "uid": "u-1", "container": "main", "name": "data"}
	tried := 0
	for _, route := range b.server.routes {
		found := param.FindAllStringSubmatch(route.Path, -1)
		for at := range found {
			for _, trick := range tricks {
				n := -1
				path := param.ReplaceAllStringFunc(route.Path, func(p string) string {
					if n++; n == at {
						return trick
					}
					return right[strings.Trim(p, "{}")]
				})
				for _, token := range []string{readerToken, adminToken} {
					tried++
					code, body := send(route.Method, path, token)
					if code < 300 || code >= 500 || strings.Contains(body, "precious") ||
						strings.Contains(body, "reached the runtime") || strings.Contains(body, "root:") {
						t.Errorf("%s %s with %.5s = %d %q", route.Method, path, token, code, body)
					}
				}
			}
		}
	}
	if tried < 500 {
		t.Errorf("only %d requests were tried", tried)
	}
	if node.removed != nil {
		t.Errorf("asked to remove %q", node.removed)
	}
	// What a wider class serves does not lead to a narrower one.
	for _, path := range []string{
		"/pods/../exec/default/web-n1/main?command=id&output=1", "/pods/%2e%2e/logs/syslog",
		"//exec/default/web-n1/main?command=id", "/api/v1/../../logs/syslog",
		"/healthz/..%2flogs%2fsyslog", "/api/../podstead/v1/images/prune", "/apis/..%2f..%2flogs%2fsyslog", "/./logs/syslog",
	} {
		for _, method := range []string{"GET", "POST"} {
			if code, body := send(method, path, readerToken); code < 300 || code >= 500 || strings.Contains(body, "line two") {
				t.Errorf("%s %s = %d %q", method, path, code, body)
			}
		}
	}
}

func TestCheckpoint(t *testing.T) {
	dir := t.TempDir()
	var fault error
	src := Sources{Pods: &recordingNode{}, ManifestName: func(p *v1.Pod) string { return p.Name },
		Kube: http.NotFoundHandler(), Kubelet: Kubelet{
			Checkpoints: filepath.Join(dir, "checkpoints"),
			Checkpoint: func(_ context.Context, id, file string, timeout time.Duration) error {
				if id != "c-1" || timeout != 7*time.Second {
					t.Errorf("asked for %s, %v", id, timeout)
				}
				if err := os.WriteFile(file, []byte("memory"), 0o600); err != nil {
					t.Fatal(err)
				}
				return fault
			},
		}}
	server := httptest.NewServer(serveClasses(Routes(src), access.All))
	defer server.Close()
	post := func(path string) (int, string) {
		resp, err := http.Post(server.URL+path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	code, body := post("/checkpoint/default/web-n1/main?timeout=7")
	var response struct{ Items []string }
	if err := json.Unmarshal([]byte(body), &response); code != 200 || err != nil || len(response.Items) != 1 {
		t.Fatalf("POST /checkpoint = %d %q", code, body)
	}
	if data, err := os.ReadFile(response.Items[0]); err != nil || string(data) != "memory" ||
		!strings.Contains(response.Items[0], "checkpoint-web-n1_default-main-") {
		t.Errorf("%s: %q, %v", response.Items[0], data, err)
	}
	if fi, err := os.Stat(filepath.Join(dir, "checkpoints")); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", fi.Mode(), err)
	}
	if err := os.Remove(response.Items[0]); err != nil {
		t.Fatal(err)
	}
	for err, want := range map[error]int{errors.ErrUnsupported: 501, errors.New("criu is not there"): 500} {
		fault = err
		if code, body := post("/checkpoint/default/web-n1/main?timeout=7"); code != want ||
			!strings.Contains(body, err.Error()) {
			t.Errorf("%v = %d %q, want %d", err, code, body, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "checkpoints", "*")); len(left) > 1 {
		t.Errorf("what failed left files: %v", left)
	}
	for path, want := range map[string]int{"/checkpoint/default/none/main": 404, "/checkpoint/default/web-n1/none": 404,
		"/checkpoint/default/web-n1/main?timeout=soon": 400} {
		if code, body := post(path); code != want {
			t.Errorf("POST %s = %d %q, want %d", path, code, body, want)
		}
	}
}

func TestProfiles(t *testing.T) {
	if code, body := request(profiles(false), "GET", "/debug/pprof/heap"); code != 405 ||
		!strings.Contains(body, "--profiling") {
		t.Errorf("while they are off = %d %q", code, body)
	}
	server := httptest.NewServer(profiles(true))
	defer server.Close()
	get := func(path string) (int, string) {
		resp, err := http.Get(server.URL + "/debug/pprof/" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	for path, words := range map[string]string{"": "goroutine", "goroutine?debug=1": "goroutine profile:",
		"heap?gc=1": "\x1f\x8b", "profile?seconds=0.01": "\x1f\x8b", "trace?seconds=0.01": "go 1."} {
		if code, body := get(path); code != 200 || !strings.Contains(body, words) {
			t.Errorf("%q = %d %.40q, want %q", path, code, body, words)
		}
	}
	for path, want := range map[string]int{"none": 404, "profile?seconds=1h": 400, "profile?seconds=NaN": 400,
		"profile?seconds=-1": 400, "trace?seconds=1e9": 400} {
		if code, body := get(path); code != want {
			t.Errorf("%q = %d %q, want %d", path, code, body, want)
		}
	}
}

func TestKubeletEndpoints(t *testing.T) {
	var pod v1.Pod
	pod.Name = "web-n1"
	src := Sources{Kube: http.NotFoundHandler(), Kubelet: Kubelet{
		Running:     func() []v1.Pod { return []v1.Pod{pod} },
		Config:      func(context.Context) map[string]any { return map[string]any{"port": 10250} },
		MachineInfo: func() MachineInfo { return MachineInfo{Cores: 2, Memory: 1 << 30, MachineID: "abc"} },
	}}
	h := serveClasses(Routes(src), access.Read)
	for path, want := range map[string]string{
		"/runningpods/": `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"web-n1"}`,
		"/configz":      `{"kubeletconfig":{"port":10250}}`,
		"/spec/":        `"num_cores":2,"memory_capacity":1073741824,"machine_id":"abc"`,
	} {
		if code, body := request(h, "GET", path); code != 200 || !strings.Contains(body, want) {
			t.Errorf("GET %s = %d %s, want %s", path, code, body, want)
		}
	}
	for _, path := range []string{"/logs/", "/debug/pprof/"} {
		if code, _ := request(h, "GET", path); code != 404 {
			t.Errorf("GET %s for readers = %d, want 404", path, code)
		}
	}
}

// TestRun lets who may get into containers run a command in one, and responds
// with what it printed.
func TestRun(t *testing.T) {
	b := newTestServer(t).withTokens()
	node := &recordingNode{}
	b.src = node.sources()
	b.src.Pods, b.src.Streams = node, node
	b.src.ManifestName = func(p *v1.Pod) string { return strings.TrimSuffix(p.Name, "-n1") }
	b.start()
	for _, c := range []struct {
		method, path, token string
		code                int
		words               string
	}{
		{"POST", "/run/default/web-n1/main?cmd=echo+hi", execToken, 200, "reached the runtime"},
		{"POST", "/run/default/web/u-1/main?cmd=echo+hi", execToken, 200, "reached the runtime"},
		{"POST", "/run/default/web/u-2/main?cmd=echo+hi", execToken, 404, "has the UID u-1"},
		{"POST", "/run/default/web/none/?cmd=id", execToken, 404, ""},
		{"POST", "/run/default/web/main?cmd=+", execToken, 400, "cmd: must not"},
		{"POST", "/run/default/web/none?cmd=id", execToken, 404, "containers: main"},
		{"POST", "/run/default/web/main?cmd=id", readerToken, 403, "access class exec"},
		{"POST", "/run/default/web/main?cmd=id", "", 401, "a client certificate or"},
		{"GET", "/run/default/web/main?cmd=id", adminToken, 405, ""},
	} {
		code, body := b.request(b.client(), c.method, "https://"+b.tlsAddress+c.path, c.token)
		if code != c.code || !strings.Contains(body, c.words) || c.code != 200 && strings.Contains(body, "reached") {
			t.Errorf("%s %s with %.6q = %d %q, want %d %q", c.method, c.path, c.token, code, body, c.code, c.words)
		}
	}
}
