package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Node is one daemon with its own directories, socket and node name. Several nodes may share a
// runtime.
type Node struct {
	// Name is the node's name, which is also the suffix of its pods' names.
	Name string
	// Manifests is the daemon's manifest directory, Root its --root-dir.
	Manifests, Root string
	// PodLogs and ContainerLogs replace /var/log/pods and /var/log/containers.
	PodLogs, ContainerLogs string
	// Args are additional arguments of `podstead run`, read at each start.
	Args []string
	// Binary is the daemon's program. NewNode sets it to Product().
	Binary string
	// Env is added to the daemon's environment.
	Env []string
	// Endpoint is the runtime's endpoint. If empty, the daemon finds or starts a runtime.
	Endpoint string

	dir    string
	client *http.Client
	mu     sync.Mutex
	proc   *process
}

// NewNode creates the directories of a node. It starts nothing.
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

// CgroupRoot returns the parent cgroup of the node's pods. It is removed with the test bed.
func (n *Node) CgroupRoot() string { return filepath.Join("/", filepath.Base(Dir()), n.Name) }

// Dir returns the directory with everything of the node.
func (n *Node) Dir() string { return n.dir }

// Socket is the path of the daemon's API socket.
func (n *Node) Socket() string { return filepath.Join(n.dir, "api.sock") }

// Log returns the path of the daemon's log.
func (n *Node) Log() string { return filepath.Join(n.dir, "podstead.log") }

// PodName returns the full name of a pod whose manifest has this name.
func (n *Node) PodName(name string) string { return name + "-" + n.Name }

// Flags returns the arguments of `podstead run` for this node, followed by more.
func (n *Node) Flags(more ...string) []string {
	args := []string{"run", "--pod-manifest-path", n.Manifests, "--root-dir", n.Root,
		"--api-socket", n.Socket(), "--hostname-override", n.Name, "--healthz-port", "0", "--port", "0",
		"--cgroup-root", n.CgroupRoot(), "--pod-logs-dir", n.PodLogs, "--container-logs-dir", n.ContainerLogs}
	if n.Endpoint != "" {
		args = append(args, "--container-runtime-endpoint", n.Endpoint)
	}
	for _, quiet := range hostDisk {
		if !slices.Contains(n.Args, quiet[0]) {
			args = append(args, quiet[:]...)
		}
	}
	return append(append(args, n.Args...), more...)
}

// hostDisk are flags with which a daemon neither evicts pods nor removes images because the disk of
// the host is nearly full, unless the node has them in its Args.
var hostDisk = [][2]string{
	{"--eviction-hard",
		"memory.available<100Mi,nodefs.available<1%,imagefs.available<1%,nodefs.inodesFree<1%,imagefs.inodesFree<1%"},
	{"--image-gc-high-threshold", "100"},
}

// Command returns a command that runs the daemon's program with these arguments.
func (n *Node) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(n.Binary, args...)
	cmd.Env = append(os.Environ(), n.Env...)
	return cmd
}

// Launch starts the daemon without waiting for it.
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

// Start starts the daemon and waits until its API socket responds.
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
			return fmt.Errorf("podstead does not answer on its API socket: %w\n%s", err, tail(n.Log()))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Pid returns the daemon's process ID, 0 if it was never started.
func (n *Node) Pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == nil {
		return 0
	}
	return n.proc.Pid()
}

// Kill kills the daemon with SIGKILL, as a crash does.
func (n *Node) Kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil {
		n.proc.Kill()
	}
}

// stopTimeout bounds a shutdown of the daemon, which waits for a call to the runtime.
const stopTimeout = 3 * time.Minute

// Stop stops the daemon with SIGTERM. An exit code other than 0 is an error, and so is a
// shutdown that takes longer than stopTimeout.
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
	case <-time.After(stopTimeout):
		n.proc.Signal(syscall.SIGQUIT) // its stacks go to the log
		<-n.proc.ended
		return fmt.Errorf("podstead did not end within %v of SIGTERM", stopTimeout)
	}
}

// End stops the daemon with SIGTERM, so that it finishes its calls to the runtime, and kills
// it if it still runs a minute later. It does nothing if the daemon does not run.
func (n *Node) End() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == nil {
		return
	}
	n.proc.Signal(syscall.SIGTERM)
	select {
	case <-n.proc.ended:
	case <-time.After(time.Minute):
		n.proc.Kill()
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

// Get sends a GET request to the daemon's socket and returns the body. A status other than 200
// is an error.
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

// Pods returns the pods that the daemon reports, keyed by the name in the manifest.
func (n *Node) Pods(ctx context.Context) (map[string]v1.Pod, error) {
	body, err := n.Get(ctx, "/pods")
	if err != nil {
		return nil, err
	}
	var list v1.PodList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("/pods did not return a PodList: %w", err)
	}
	pods := make(map[string]v1.Pod, len(list.Items))
	for _, p := range list.Items {
		pods[p.Name[:max(0, len(p.Name)-len(n.Name)-1)]] = p
	}
	return pods, nil
}
