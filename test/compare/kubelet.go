package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/podstead/podstead/test/testbed"
)

// kubelet is the kubelet in standalone mode: static pods and no API server.
type kubelet struct {
	rt    *testbed.Runtime
	dir   string
	cmd   *exec.Cmd
	ended chan error
}

// kubeletConfig has the kubelet's defaults, apart from its directories and what the host of a
// test may lack: a cgroup v2, swap that is off, and the cgroups of system daemons.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: %[1]s/pods
podLogsDir: %[1]s/log
volumePluginDir: %[1]s/plugins
containerRuntimeEndpoint: %[2]s
cgroupDriver: cgroupfs
cgroupRoot: %[3]s
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
`

func (k *kubelet) name() string   { return "kubelet" }
func (k *kubelet) binary() string { return testbed.Kubelet() }

func (k *kubelet) version(ctx context.Context) (string, error) {
	return output(exec.CommandContext(ctx, k.binary(), "--version"))
}

func (k *kubelet) start(ctx context.Context, round int) error {
	k.dir = filepath.Join(testbed.Dir(), fmt.Sprintf("kubelet%d", round))
	cgroup := filepath.Join("/", filepath.Base(testbed.Dir()), fmt.Sprintf("kubelet%d", round))
	if err := makeCgroup(cgroup); err != nil {
		return err
	}
	for _, d := range []string{"pods", "log", "plugins"} {
		if err := os.MkdirAll(filepath.Join(k.dir, d), 0o755); err != nil {
			return err
		}
	}
	config := filepath.Join(k.dir, "config.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, kubeletConfig, k.dir, k.rt.Endpoint(), cgroup), 0o600); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(k.dir, "kubelet.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(k.binary(), "--config", config, "--root-dir", filepath.Join(k.dir, "root"),
		"--cert-dir", filepath.Join(k.dir, "pki"), "--hostname-override", "compare")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	k.cmd, k.ended = cmd, make(chan error, 1)
	go func() { k.ended <- cmd.Wait() }()
	return await(ctx, "the kubelet is healthy", func() error {
		select {
		case err := <-k.ended:
			k.ended <- err
			return final{fmt.Errorf("the kubelet ended: %w\n%s", err, tail(log.Name()))}
		default:
		}
		r, err := http.Get("http://127.0.0.1:10248/healthz")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("healthz: %s", r.Status)
		}
		return nil
	})
}

func (k *kubelet) create(_ context.Context, pods []pod) error {
	return writeManifests(filepath.Join(k.dir, "pods"), pods)
}

func (k *kubelet) replace(_ context.Context, edited pod) error {
	return writeManifests(filepath.Join(k.dir, "pods"), []pod{edited})
}

func (k *kubelet) remove(_ context.Context, old pod) error {
	return os.Remove(filepath.Join(k.dir, "pods", old.name+".yaml"))
}

func (k *kubelet) processes() (daemon, runtime int, monitor string) {
	return k.cmd.Process.Pid, k.rt.Pid(), "containerd-shim-runc-v2"
}

func (k *kubelet) stop(ctx context.Context) error {
	if k.cmd == nil {
		return nil
	}
	_ = k.cmd.Process.Kill()
	err := <-k.ended
	k.ended <- err
	return k.rt.CRI.RemoveAll(ctx)
}

// makeCgroup creates a cgroup, which the kubelet expects, in each hierarchy. It is removed with
// the test bed.
func makeCgroup(path string) error {
	roots, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if err != nil {
		return err
	}
	if isFile("/sys/fs/cgroup/cgroup.procs") {
		roots = append(roots, "/sys/fs/cgroup/cgroup.procs")
	}
	for _, r := range roots {
		if err := os.MkdirAll(filepath.Join(filepath.Dir(r), path), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// tail returns the end of a log, for an error message.
func tail(file string) string {
	const keep = 4096
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-keep):])
}

// pollInterval is how often await checks.
const pollInterval = 10 * time.Millisecond
