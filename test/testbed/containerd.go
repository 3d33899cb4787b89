package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Kind is a kind of container runtime.
type Kind string

// The kinds of runtime that the suite runs on.
const (
	// Containerd16 is Debian's containerd: CRI v1 without container events.
	Containerd16 Kind = "containerd-1.6"
	// Containerd24 streams container events.
	Containerd24 Kind = "containerd-2.4"
)

// Binary is the path of the runtime's program.
func (k Kind) Binary() string {
	if k == Containerd24 {
		return newContainerd("containerd")
	}
	return "/usr/bin/containerd"
}

// OtherHandler is a runtime handler that both kinds have in addition to their default handler.
// It does not give the host's devices to privileged containers.
const OtherHandler = "other"

// OtherRunc returns the runc of OtherHandler: Debian's, or on the newer containerd one that
// supports idmapped mounts, which user namespaces need.
func (k Kind) OtherRunc() string {
	if k == Containerd24 {
		return newRunc()
	}
	return "/usr/sbin/runc"
}

// Path returns the PATH with which a process finds the runtime's programs and runc.
func (k Kind) Path() string { return filepath.Dir(k.Binary()) + ":/usr/sbin:/usr/bin:/sbin:/bin" }

// Kinds are all kinds of runtime.
func Kinds() []Kind { return []Kind{Containerd16, Containerd24} }

// Runtime is a private containerd: its own root, state, socket, CNI network and bridge.
type Runtime struct {
	Kind Kind
	// Socket is the path of its gRPC socket.
	Socket string
	// CRI is a plain client of the runtime, independent of the product's.
	CRI *CRI

	dir string
	// awaited are the conditions that are true once it has started.
	awaited []string
	mu      sync.Mutex
	proc    *process
}

// startTimeout bounds the start of a runtime or a daemon, removeTimeout the removal of all pods.
const (
	startTimeout  = 5 * time.Minute
	removeTimeout = 10 * time.Minute
)

// runtimeNumber numbers the runtimes, so that their bridges and subnets differ.
var runtimeNumber struct {
	sync.Mutex
	n int
}

// StartRuntime starts a containerd that pulls every image from the registry.
func StartRuntime(ctx context.Context, kind Kind, r *Registry) (*Runtime, error) {
	runtimeNumber.Lock()
	runtimeNumber.n++
	n := runtimeNumber.n
	runtimeNumber.Unlock()

	dir := filepath.Join(Dir(), fmt.Sprintf("%s-%d", kind, n))
	rt := &Runtime{Kind: kind, dir: dir, Socket: filepath.Join(dir, "containerd.sock"),
		awaited: []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady}}
	if err := rt.configure(n, r.Addr()); err != nil {
		return nil, err
	}
	cri, err := DialCRI(rt.Socket)
	if err != nil {
		return nil, err
	}
	rt.CRI = cri
	if err := rt.Start(ctx); err != nil {
		return nil, err
	}
	return rt, nil
}

// Endpoint is the runtime's address as --container-runtime-endpoint takes it.
func (r *Runtime) Endpoint() string { return "unix://" + r.Socket }

// Dir returns the runtime's directory.
func (r *Runtime) Dir() string { return r.dir }

// Start starts the runtime, also after Kill, and waits until it and its network are ready.
func (r *Runtime) Start(ctx context.Context) error {
	bin := r.Kind.Binary()
	for _, part := range []string{bin, r.Kind.OtherRunc()} {
		if _, err := os.Stat(part); err != nil {
			return fmt.Errorf("missing: %s\nrun: make setup", part)
		}
	}
	cmd := exec.Command(bin, "--config", filepath.Join(r.dir, "config.toml"))
	cmd.Env = append(os.Environ(), "PATH="+r.Kind.Path())
	p, err := start(cmd, filepath.Join(r.dir, "containerd.log"))
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.proc = p
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := r.CRI.ready(ctx, r.awaited...)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended while starting: %w\n%s", r.Kind, p.err, tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %v: %w\n%s", r.Kind, startTimeout, err, tail(p.log))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Pid is containerd's process ID.
func (r *Runtime) Pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proc.Pid()
}

// Kill kills containerd, as a crash does: its shims and containers keep running.
func (r *Runtime) Kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proc.Kill()
}

// RemoveTask kills the process of a container and removes the task, of which the CRI plugin does not know.
func (r *Runtime) RemoveTask(ctx context.Context, container string) error {
	out, err := exec.CommandContext(ctx, "ctr", "--address", r.Socket, "--namespace", "k8s.io", "tasks", "delete",
		"--force", container).CombinedOutput()
	if err != nil {
		return fmt.Errorf("failed to remove the task of %s: %w: %s", container, err, out)
	}
	return nil
}

// Close removes every pod and ends containerd.
func (r *Runtime) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	err := r.CRI.RemoveAll(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proc.Signal(syscall.SIGTERM)
	select {
	case <-r.proc.ended:
	case <-time.After(time.Minute):
		r.proc.Kill()
	}
	return errors.Join(err, r.CRI.Close())
}

// UseNetworkTemplate restarts the runtime without a network. It gets one when it receives the
// address ranges of its pods: a bridge of that name with addresses of these ranges.
func (r *Runtime) UseNetworkTemplate(ctx context.Context, bridge string) error {
	r.Kill()
	config, template := filepath.Join(r.dir, "config.toml"), filepath.Join(r.dir, "network.template")
	data, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	text := strings.Replace(string(data), "conf_dir = ", fmt.Sprintf("conf_template = %q\n  conf_dir = ", template), 1)
	if err := errors.Join(
		os.WriteFile(config, []byte(text), 0o644),
		os.WriteFile(template, fmt.Appendf(nil, cniTemplate, bridge, filepath.Join(r.dir, "ipam")), 0o644),
		os.Remove(filepath.Join(r.dir, "cni", cniFile)),
	); err != nil {
		return err
	}
	r.awaited = []string{runtimeapi.RuntimeReady}
	return r.Start(ctx)
}

// cniFile is the name of the network's configuration.
const cniFile = "10-bed.conflist"

// cniTemplate is a network with the address ranges that the runtime receives.
const cniTemplate = `{
  "cniVersion": "0.4.0",
  "name": %[1]q,
  "plugins": [
    {
      "type": "bridge", "bridge": %[1]q, "isGateway": true, "ipMasq": true, "hairpinMode": true,
      "ipam": {"type": "host-local", "dataDir": %[2]q,
        "ranges": [{{range $i, $range := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$range}}"}]{{end}}],
        "routes": [{"dst": "0.0.0.0/0"}]}
    }
  ]
}
`

func (r *Runtime) configure(n int, registry string) error {
	config := config16
	if r.Kind == Containerd24 {
		config = config24
	}
	// The bridge's name has at most 15 bytes.
	network := fmt.Sprintf(cniConf, n, n, n, filepath.Join(r.dir, "ipam"))
	for path, content := range map[string]string{
		"config.toml":                 fmt.Sprintf(config, r.dir, PauseImage, OtherHandler, r.Kind.OtherRunc()),
		"cni/" + cniFile:              network,
		"certs.d/_default/hosts.toml": HostsTOML(registry),
	} {
		path = filepath.Join(r.dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// HostsTOML is a containerd hosts file that sends every pull to a registry on loopback.
func HostsTOML(addr string) string {
	return fmt.Sprintf("server = %[1]q\n[host.%[1]q]\n  capabilities = [\"pull\", \"resolve\"]\n", "http://"+addr)
}

// SystemContainerd16 is /etc/containerd/config.toml of a test machine with Debian's containerd
// as a system service.
const SystemContainerd16 = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + PauseImage + `"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"
`

// SystemCNI is the CNI configuration of that machine. Its pods use the host's network, so it
// only needs to be valid.
const SystemCNI = `{"cniVersion": "0.4.0", "name": "bed", "plugins": [{"type": "bridge", "bridge": "psbed", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.210.0.0/24"}]]}}]}`

// restrict_oom_score_adj lets a sandbox start where CAP_SYS_RESOURCE is missing,
// as in some virtual machines and containers. Without the timeouts, a containerd that starts on a
// busy machine kills the containers of each shim that does not respond within seconds.
const config16 = `version = 2
root = "%[1]s/root"
state = "%[1]s/state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs", "io.containerd.tracing.processor.v1.otlp"]
[timeouts]
  "io.containerd.timeout.shim.cleanup" = "2m"
  "io.containerd.timeout.shim.load" = "2m"
  "io.containerd.timeout.shim.shutdown" = "2m"
  "io.containerd.timeout.task.state" = "2m"
[grpc]
  address = "%[1]s/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[2]s"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.%[3]s]
    runtime_type = "io.containerd.runc.v2"
    privileged_without_host_devices = true
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.%[3]s.options]
      BinaryName = "%[4]s"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "%[1]s/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "%[1]s/certs.d"
`

const config24 = `version = 3
root = "%[1]s/root"
state = "%[1]s/state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs", "io.containerd.tracing.processor.v1.otlp"]
[timeouts]
  "io.containerd.timeout.shim.cleanup" = "2m"
  "io.containerd.timeout.shim.load" = "2m"
  "io.containerd.timeout.shim.shutdown" = "2m"
  "io.containerd.timeout.task.state" = "2m"
[grpc]
  address = "%[1]s/containerd.sock"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "%[2]s"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "%[1]s/certs.d"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.%[3]s]
  runtime_type = "io.containerd.runc.v2"
  privileged_without_host_devices = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.%[3]s.options]
    BinaryName = "%[4]s"
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "%[1]s/cni"
[plugins."io.containerd.nri.v1.nri"]
  disable = true
`

const cniConf = `{
  "cniVersion": "0.4.0",
  "name": "podstead-bed-%[1]d",
  "plugins": [
    {
      "type": "bridge", "bridge": "psbed%[2]d", "isGateway": true, "ipMasq": true, "hairpinMode": true,
      "ipam": {"type": "host-local", "dataDir": %[4]q, "ranges": [[{"subnet": "10.211.%[3]d.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`
