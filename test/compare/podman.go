package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/podstead/podstead/test/image"
	"github.com/podstead/podstead/test/testbed"
)

// podman is `podman kube play`, with storage and a network of its own.
type podman struct {
	dir string
}

// containersConf has podman's defaults, apart from its directories and what the host of a test
// may lack: systemd, the journal, and a program for the first process of a pod.
const containersConf = `[containers]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
conmon_path = [%[1]q]
runtime = "runc"
infra_image = %[2]q
infra_command = "/pause"
[network]
network_backend = "cni"
network_config_dir = "%[3]s/cni"
cni_plugin_dirs = ["/usr/lib/cni"]
`

// podmanNetwork is the bridge of Debian's package with addresses that the test bed does not use.
const podmanNetwork = `{
  "cniVersion": "0.4.0", "name": "podman",
  "plugins": [
    {"type": "bridge", "bridge": "cni-podman0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
      "ipam": {"type": "host-local", "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": "10.88.0.0/16", "gateway": "10.88.0.1"}]]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

func (p *podman) name() string { return "podman kube play" }

func (p *podman) binary() string {
	if isFile("/usr/bin/podman") {
		return "/usr/bin/podman"
	}
	return filepath.Join(testbed.PodmanDir(), "usr/bin/podman")
}

func (p *podman) version(ctx context.Context) (string, error) {
	return output(p.command(ctx, "--version"))
}

// command returns podman with these arguments.
func (p *podman) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.binary(), append([]string{
		"--root", filepath.Join(p.dir, "root"), "--runroot", filepath.Join(p.dir, "run"), "--tmpdir",
		filepath.Join(p.dir, "tmp"), "--storage-driver", "overlay",
	}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "CONTAINERS_CONF="+filepath.Join(p.dir, "containers.conf"))
	if root := testbed.PodmanDir(); strings.HasPrefix(p.binary(), root) {
		libraries, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*"))
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+strings.Join(libraries, ":"))
	}
	return cmd
}

func (p *podman) start(ctx context.Context, round int) error {
	p.dir = filepath.Join(testbed.Dir(), fmt.Sprintf("podman%d", round))
	conmon := "/usr/bin/conmon"
	if !isFile(conmon) {
		conmon = filepath.Join(testbed.PodmanDir(), conmon)
	}
	for path, text := range map[string]string{
		"containers.conf":                fmt.Sprintf(containersConf, conmon, testbed.PauseImage, p.dir),
		"cni/87-podman.conflist":         podmanNetwork,
		".config/containers/policy.json": `{"default": [{"type": "insecureAcceptAnything"}]}`,
	} {
		path = filepath.Join(p.dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			return err
		}
	}
	for ref, create := range map[string]func() (image.Image, error){testbed.PauseImage: testbed.Pause,
		testbed.BusyboxImage: testbed.Busybox} {
		if err := p.load(ctx, ref, create); err != nil {
			return err
		}
	}
	return nil
}

// load loads an image into podman's storage.
func (p *podman) load(ctx context.Context, ref string, create func() (image.Image, error)) error {
	img, err := create()
	if err != nil {
		return err
	}
	data, err := image.DockerArchive(map[string]image.Image{ref: img})
	if err != nil {
		return err
	}
	file := filepath.Join(p.dir, "image.tar")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return err
	}
	_, err = output(p.command(ctx, "load", "--input", file))
	return err
}

// play runs `podman kube play` with the documents of pods.
func (p *podman) play(ctx context.Context, pods []pod, args ...string) error {
	var text strings.Builder
	for _, pod := range pods {
		text.WriteString("---\n" + pod.manifest())
	}
	file := filepath.Join(p.dir, "pods.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return err
	}
	_, err := output(p.command(ctx, append(append([]string{"kube", "play", "--network", "podman"}, args...), file)...))
	return err
}

func (p *podman) create(ctx context.Context, pods []pod) error { return p.play(ctx, pods) }

func (p *podman) replace(ctx context.Context, edited pod) error {
	return p.play(ctx, []pod{edited}, "--replace")
}

func (p *podman) remove(ctx context.Context, old pod) error {
	_, err := output(p.command(ctx, "pod", "rm", "--force", old.name))
	return err
}

func (p *podman) processes() (daemon, runtime int, monitor string) { return 0, 0, "conmon" }

func (p *podman) stop(ctx context.Context) error {
	if p.dir == "" {
		return nil
	}
	if _, err := output(p.command(ctx, "pod", "rm", "--all", "--force", "--time", "0")); err != nil {
		return err
	}
	// The parent of the pods' cgroups stays, and conmon's in hierarchies without controllers.
	cgroups, err := filepath.Glob("/sys/fs/cgroup/*/libpod_parent")
	for _, c := range append(cgroups, "/sys/fs/cgroup/libpod_parent") {
		testbed.RemoveCgroup(c)
	}
	return err
}
