package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Node is one daemon with directories, socket and node name of its own. Several
// share a runtime, as other clients of it do.
type Node struct {
	// Name is the node's name: pods of the node have "-" and it appended.
	Name string
	// Manifests is the directory that the daemon reads; Root its --root-dir.
	Manifests, Root string
	// PodLogs and ContainerLogs stand for /var/log/pods and /var/log/containers.
	PodLogs, ContainerLogs string
	// Args are further arguments of `podstead run`, read at each start.
	Args []string
	// Binary is the daemon's program, Product() unless it is set.
	Binary string
	// Env is added to the daemon's environment.
	Env []string
	// Endpoint is the runtime's; empty lets the daemon find or start one.
	Endpoint string

	dir    string
	client *http.Client
	mu     sync.Mutex
	proc   *process
}

// NewNode makes the directories of a node. It starts nothing.
func NewNode(name, endpoint string) (*Node, error) {
	dir := filepath.Join(Dir(), "node-"+name)
	n := &Node{
		Name: name, Endpoint: endpoint, Binary: Product(), dir: dir,
		Manifests: filepath.Join(dir, "pods"), Root: filepath.Join(dir, "root"),
		PodLogs: filepath.Join(dir, "log/pods"), ContainerLogs: filepath.Join(dir, "log/containers"),
	}
	n.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", n.Socket())
		},
	}}
	return n, os.MkdirAll(n.Manifests, 0o755)
}

// CgroupRoot is the cgroup that the node's pods are below. It goes with the bed.
func (n *Node) CgroupRoot() string { return filepath.Join("/", filepath.Base(Dir()), n.Name) }

// Dir is the directory that holds everything of the node.
func (n *Node) Dir() string { return n.dir }

// Socket is the path of the daemon's API socket.
func (n *Node) Socket() string { return filepath.Join(n.dir, "api.sock") }

// Log is the file with everything that the daemon wrote.
func (n *Node) Log() string { return filepath.Join(n.dir, "podstead.log") }

// PodName is the full name of a pod whose manifest says name.
func (n *Node) PodName(name string) string { return name + "-" + n.Name }

// Flags are the arguments of `podstead run` for this node, with more added.
func (n *Node) Flags(more ...string) []string {
	args := []string{"run", "--pod-manifest-path", n.Manifests, "--root-dir", n.Root,
		"--api-socket", n.Socket(), "--hostname-override", n.Name, "--healthz-port", "0", "--port", "0",
		"--cgroup-root", n.CgroupRoot(), "--pod-logs-dir", n.PodLogs, "--container-logs-dir", n.ContainerLogs}
	if n.Endpoint != "" {
		args = append(args, "--container-runtime-endpoint", n.Endpoint)
	}
	return append(append(args, n.Args...), more...)
}

// Command is the daemon's program with arguments, such as another command of it.
func (n *Node) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(n.Binary, args...)
	cmd.Env = append(os.Environ(), n.Env...)
	return cmd
}

// Launch starts the daemon and does not wait for anything.
func (n *Node) Launch() error {
	p, err := start(n.Command(n.Flags()...), n.Log())
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.proc = p
	return nil
}

// Start starts the daemon and waits until its socket answers.
func (n *Node) Start(ctx context.Context) error {
	if err := n.Launch(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		_, err := n.Get(ctx, "/pods")
		if err == nil {
			return nil
		}
		select {
		case <-n.proc.ended:
			return fmt.Errorf("podstead ended while starting: %w\n%s", n.proc.err, tail(n.Log()))
		case <-ctx.Done():
			return fmt.Errorf("podstead does not answer: %w\n%s", err, tail(n.Log()))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Pid is the daemon's process ID, 0 if none was started.
func (n *Node) Pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == nil {
		return 0
	}
	return n.proc.Pid()
}

// Kill ends the daemon as a crash does.
func (n *Node) Kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil {
		n.proc.Kill()
	}
}

// Stop ends the daemon with SIGTERM; an exit status other than 0 is an error,
// and so is one that takes longer than a minute.
func (n *Node) Stop() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == nil {
		return nil
	}
	n.proc.Signal(syscall.SIGTERM)
	select {
	case <-n.proc.ended:
		return n.proc.err
	case <-time.After(time.Minute):
		n.proc.Signal(syscall.SIGQUIT) // its stacks go to the log
		<-n.proc.ended
		return errors.New("podstead did not end within a minute of SIGTERM")
	}
}

// Write writes a manifest atomically.
func (n *Node) Write(file, content string) error {
	tmp := filepath.Join(n.Manifests, "."+file+".tmp")
	if err := os.WriteFile(tmp, []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(n.Manifests, file))
}

// Remove removes a manifest.
func (n *Node) Remove(file string) error { return os.Remove(filepath.Join(n.Manifests, file)) }

// Get asks the daemon's socket for a path.
func (n *Node) Get(ctx context.Context, path string) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podstead"+path, nil)
	if err != nil {
		return nil, err
	}
	r, err := n.client.Do(q)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, r.Status, bytes.TrimSpace(body))
	}
	return body, err
}

// Pods are the pods that the daemon reports, by the name in the manifest.
func (n *Node) Pods(ctx context.Context) (map[string]v1.Pod, error) {
	body, err := n.Get(ctx, "/pods")
	if err != nil {
		return nil, err
	}
	var list v1.PodList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("/pods is no PodList: %w", err)
	}
	pods := make(map[string]v1.Pod, len(list.Items))
	for _, p := range list.Items {
		pods[p.Name[:max(0, len(p.Name)-len(n.Name)-1)]] = p
	}
	return pods, nil
}
