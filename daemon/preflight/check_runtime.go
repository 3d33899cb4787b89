package preflight

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// minVersions are the first versions of runtimes that support CRI v1.
var minVersions = map[string]string{"containerd": "1.6.0", "cri-o": "1.23.0", "docker": "20.10.0"}

func runtimeStatus(h *Host, s *Settings) []Finding {
	r := &s.Runtime
	path := strings.TrimPrefix(r.Endpoint, "unix://")
	switch {
	case r.Err != nil && r.Endpoint == "":
		return fail("runtime", "crictl --runtime-endpoint unix:///run/containerd/containerd.sock pods",
			"the container runtime that runs the pods is unknown: %v", r.Err)
	case r.Private && r.Err != nil:
		return ok("runtime", "no containerd, CRI-O or cri-dockerd is running; podstead will start a private containerd")
	case r.Err != nil && !h.exists(path):
		return repaired(fail("runtime", "systemctl enable --now "+service(path),
			"socket %s does not exist: the runtime is not running, or listens elsewhere (--container-runtime-endpoint)", path))
	case r.Err != nil && criUnsupported(r.Err):
		if service(path) != "containerd" {
			return fail("runtime", "upgrade "+service(path), "the runtime at %s does not support CRI v1: it is too old: %v",
				path, r.Err)
		}
		return repaired(fail("runtime",
			`sed -i '/^disabled_plugins/s/"cri"//' /etc/containerd/config.toml && systemctl restart containerd`,
			"the runtime at %s does not support CRI v1: its CRI plugin is disabled, or it is too old: %v", path, r.Err))
	case r.Err != nil:
		return fail("runtime", "systemctl restart "+service(path)+"; journalctl -u "+service(path),
			"the runtime at %s does not respond: %v", path, r.Err)
	case r.NotReady != "":
		return fail("runtime", r.showLog(50), "%s %s is not ready: %s", r.Name, r.Version, r.NotReady)
	}
	if minimum, known := minVersions[strings.ToLower(r.Name)]; known {
		if v, err := version.ParseGeneric(r.Version); err == nil && !v.AtLeast(version.MustParseGeneric(minimum)) {
			return fail("runtime", "apt-get install --only-upgrade "+service(path),
				"%s %s is too old: version %s or later is required", r.Name, r.Version, minimum)
		}
	}
	return ok("runtime", "%s %s responds on %s", r.Name, r.Version, path)
}

// showLog returns the command that shows the end of the runtime's log.
func (r *Runtime) showLog(lines int) string {
	if r.Private {
		return fmt.Sprintf("tail -n %d %s", lines, r.Log)
	}
	return "journalctl -u " + service(r.Endpoint)
}

// criUnsupported reports whether an error reports that the runtime does not serve CRI v1.
func criUnsupported(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unknown service") || strings.Contains(text, "not implemented") ||
		strings.Contains(text, "Unimplemented")
}

// service returns the systemd service of a runtime's socket.
func service(path string) string {
	switch {
	case strings.Contains(path, "crio"):
		return "crio"
	case strings.Contains(path, "dockerd"):
		return "cri-docker"
	}
	return "containerd"
}

func pauseImage(_ *Host, s *Settings) []Finding {
	image := s.Runtime.PauseImage
	switch {
	case image == "":
		return nil
	case s.Runtime.PauseMissing:
		fix := pauseFix(&s.Runtime)
		command, _, _ := strings.Cut(fix, "  (")
		return repairedBy(command, warn("pause-image", fix, "the sandbox image %s is missing: pods wait until it is pulled",
			image))
	}
	return ok("pause-image", "sandbox image %s is present", image)
}

// defaultContainerdSocket is where ctr connects to without --address.
const defaultContainerdSocket = "/run/containerd/containerd.sock"

// pauseFix returns the command that adds the sandbox image to the runtime.
func pauseFix(r *Runtime) string {
	switch service(r.Endpoint) {
	case "crio":
		return "crictl --runtime-endpoint " + r.Endpoint + " pull " + r.PauseImage +
			"  (without a network: podman load --input pause.tar)"
	case "cri-docker":
		return "docker pull " + r.PauseImage + "  (without a network: docker load --input pause.tar)"
	}
	ctr := "ctr"
	if socket := strings.TrimPrefix(r.Endpoint, "unix://"); socket != defaultContainerdSocket {
		ctr += " --address " + socket
	}
	return ctr + " -n k8s.io images pull " + r.PauseImage + "  (without a network: " + ctr +
		" -n k8s.io images import pause.tar)"
}

// binaries checks for the programs that a private containerd requires.
func binaries(h *Host, s *Settings) (list []Finding) {
	if !s.Runtime.Private {
		return nil
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "runc"} {
		if h.command(name) == "" {
			list = append(list, h.installed("containerd runc",
				fail("runtime", "apt-get install containerd runc", "%s is not installed", name))...)
		}
	}
	return list
}
