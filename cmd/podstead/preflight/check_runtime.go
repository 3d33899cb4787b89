package preflight

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// oldest are the versions from which on runtimes speak CRI v1.
var oldest = map[string]string{"containerd": "1.6.0", "cri-o": "1.23.0", "docker": "20.10.0"}

func runtimeAnswers(h *Host, s *Settings) []Finding {
	r := &s.Runtime
	path := strings.TrimPrefix(r.Endpoint, "unix://")
	switch {
	case r.Private && r.Err != nil:
		return ok("runtime", "no containerd, CRI-O or cri-dockerd runs; podstead would start a containerd of its own")
	case r.Err != nil && !h.exists(path):
		return fail("runtime", "systemctl enable --now "+service(path), "there is no socket %s: the runtime does not run, or listens elsewhere (--container-runtime-endpoint)", path)
	case r.Err != nil && disabled(r.Err):
		return fail("runtime", "take \"cri\" out of disabled_plugins in /etc/containerd/config.toml, then systemctl restart containerd",
			"the runtime at %s does not speak CRI v1: its CRI plugin is off, or it is too old: %v", path, r.Err)
	case r.Err != nil:
		return fail("runtime", "systemctl restart "+service(path)+"; journalctl -u "+service(path), "the runtime at %s does not answer: %v", path, r.Err)
	case r.NotReady != "":
		return fail("runtime", "journalctl -u "+service(path), "%s %s is not ready: %s", r.Name, r.Version, r.NotReady)
	}
	if least, known := oldest[strings.ToLower(r.Name)]; known {
		if v, err := version.ParseGeneric(r.Version); err == nil && !v.AtLeast(version.MustParseGeneric(least)) {
			return fail("runtime", "apt-get install --only-upgrade "+service(path), "%s %s is too old; it must be %s at least", r.Name, r.Version, least)
		}
	}
	return ok("runtime", "%s %s answers on %s", r.Name, r.Version, path)
}

// disabled tells a runtime that serves other things than CRI v1.
func disabled(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unknown service") || strings.Contains(text, "not implemented") || strings.Contains(text, "Unimplemented")
}

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
		return warn("pause-image", "ctr -n k8s.io images pull "+image+"  (without a network: ctr -n k8s.io images import pause.tar)",
			"the image of sandboxes, %s, is not there; each pod waits until it is pulled", image)
	}
	return ok("pause-image", "%s is there", image)
}

// binaries are what a containerd of podstead's own needs.
func binaries(h *Host, s *Settings) (list []Finding) {
	if !s.Runtime.Private {
		return nil
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "runc"} {
		if h.command(name) == "" {
			list = append(list, fail("runtime", "apt-get install containerd runc", "%s is not installed", name)...)
		}
	}
	return list
}
