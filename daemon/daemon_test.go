package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri/critest"
)

// runArguments is set for the process that TestMain turns into a daemon: the arguments of run, one a line.
const runArguments = "PODSTEAD_TEST_RUN"

// TestMain runs the daemon in a process of its own: it limits the memory of its process and protects it from the
// OOM killer.
func TestMain(m *testing.M) {
	args := os.Getenv(runArguments)
	if args == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	run := runCommand()
	run.SetArgs(strings.Split(args, "\n"))
	if err := run.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// startTimeout limits how long the daemon may take to start, and to do what it is asked.
const startTimeout = 2 * time.Minute

// testDaemon is a daemon on the fake runtime, in a temporary directory.
type testDaemon struct {
	*testing.T
	cmd    *exec.Cmd
	log    string
	client *http.Client
}

// start starts a daemon and returns when it reports that it is ready.
func start(t *testing.T, dir string, args []string) *testDaemon {
	t.Helper()
	notify := filepath.Join(dir, "notify.sock")
	_ = os.Remove(notify)
	states, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer states.Close()
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := &testDaemon{T: t, cmd: exec.Command(os.Args[0]), log: log.Name()}
	p.cmd.Env = append(os.Environ(), runArguments+"="+strings.Join(args, "\n"), "NOTIFY_SOCKET="+notify)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // its mounts end with it
	socket := filepath.Join(dir, "run", "api.sock")
	p.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	_ = states.SetReadDeadline(time.Now().Add(startTimeout))
	state := make([]byte, 256)
	for {
		n, err := states.Read(state)
		if err != nil {
			p.Fatalf("the daemon does not start: %v\n%s", err, p.logged())
		}
		if strings.Contains(string(state[:n]), "READY=1") {
			return p
		}
	}
}

func (p *testDaemon) logged() string {
	text, _ := os.ReadFile(p.log)
	return string(text)
}

// get returns the response to a request; it must be 200.
func (p *testDaemon) get(path string) io.ReadCloser {
	p.Helper()
	r, err := p.client.Get("http://podstead" + path)
	if err != nil {
		p.Fatalf("GET %s: %v\n%s", path, err, p.logged())
	}
	if r.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(r.Body)
		p.Fatalf("GET %s: %s: %s", path, r.Status, text)
	}
	return r.Body
}

// awaitRunning returns the pod of a name once it is Running.
func (p *testDaemon) awaitRunning(name string) *v1.Pod {
	p.Helper()
	watch := p.get("/api/v1/namespaces/default/pods?watch=true")
	defer watch.Close()
	late := time.AfterFunc(startTimeout, func() { watch.Close() })
	defer late.Stop()
	for changes := json.NewDecoder(bufio.NewReader(watch)); ; {
		var change struct{ Object v1.Pod }
		if err := changes.Decode(&change); err != nil {
			p.Fatalf("pod %s does not run: %v\n%s", name, err, p.logged())
		}
		if pod := &change.Object; pod.Name == name && pod.Status.Phase == v1.PodRunning {
			return pod
		}
	}
}

// stop stops the daemon, which must end without an error.
func (p *testDaemon) stop() {
	p.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.Fatalf("the daemon ended with %v\n%s", err, p.logged())
	}
}

// The daemon is assembled: it runs the pod of a manifest, responds on its socket, leaves the pod running when it
// stops, and adopts it when it starts again.
func TestDaemon(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the daemon runs as root")
	}
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	fake := critest.New(t)
	if err := fake.ServeUnix(path("cri.sock")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pods", "run"} {
		if err := os.Mkdir(path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	manifest := "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: " +
		"\"registry.example/web:1\"}]}\n"
	if err := os.WriteFile(path("pods/web.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	cgroup := fmt.Sprintf("podstead-test-%d", os.Getpid())
	t.Cleanup(func() { removeCgroup(t, cgroup) })
	args := []string{
		"--pod-manifest-path", path("pods"), "--root-dir", path("root"), "--api-socket", path("run/api.sock"),
		"--container-runtime-endpoint", "unix://" + path("cri.sock"), "--hostname-override", "n1", "--cgroup-root",
		"/" + cgroup,
		"--pod-logs-dir", path("logs"), "--container-logs-dir", path("container-logs"), "--healthz-port", "0", "--port", "0",
		// The disk of this host neither evicts the pod nor removes its image.
		"--eviction-hard", "memory.available<1Mi", "--image-gc-high-threshold", "100",
	}
	p := start(t, dir, args)
	pod := p.awaitRunning("web-n1")
	for _, responses := range []string{
		"/healthz", "/pods", "/runningpods/", "/configz", "/metrics", "/stats/summary", "/api/v1/nodes/n1",
		"/podstead/v1/manifests", "/podstead/v1/images", "/podstead/v1/volumes?usage=true", "/podstead/v1/rollouts",
		"/podstead/v1/starts",
	} {
		p.get(responses).Close()
	}
	p.stop()
	if running := fake.Running(); running != 1 {
		t.Fatalf("after the end of the daemon %d containers run, want one\n%s", running, p.logged())
	}

	p = start(t, dir, args)
	if again := p.awaitRunning("web-n1"); again.UID != pod.UID ||
		again.Status.ContainerStatuses[0].ContainerID != pod.Status.ContainerStatuses[0].ContainerID {
		t.Errorf("the pod was not adopted: %s\n%s", again.Status.ContainerStatuses[0].ContainerID, p.logged())
	}
	p.stop()
	if starts := fake.Starts(string(pod.UID), "main"); starts != 1 {
		t.Errorf("the container was started %d times", starts)
	}
	fake.Check(t)
}

// removeCgroup removes the cgroups of the pods, in which no process is.
func removeCgroup(t *testing.T, name string) {
	t.Helper()
	one, _ := filepath.Glob("/sys/fs/cgroup/" + name)
	each, _ := filepath.Glob("/sys/fs/cgroup/*/" + name) // of cgroup v1
	for _, root := range append(one, each...) {
		var all []string
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for i := len(all) - 1; i >= 0; i-- {
			if err := os.Remove(all[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("failed to remove a cgroup: %v", err)
			}
		}
	}
}
