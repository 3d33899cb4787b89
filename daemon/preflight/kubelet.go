package preflight

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/internal/boundedfile"
)

// kubeletDefaultEndpoint is the kubelet's runtime endpoint if neither flag nor config file
// sets one (v1.36).
const kubeletDefaultEndpoint = "/run/containerd/containerd.sock"

const (
	// maxCommandLine bounds the command line of a process, which the process itself can
	// set to any size.
	maxCommandLine = 64 << 10
	// maxKubeletConfig bounds the kubelet's config file.
	maxKubeletConfig = 1 << 20
)

// KubeletError reports that a kubelet uses the same container runtime.
type KubeletError struct {
	PID      int
	Endpoint string
}

// Error names the process and the remedies.
func (e *KubeletError) Error() string {
	return fmt.Sprintf("a kubelet (pid %d) uses the container runtime %s and would kill all pods of podstead, which it "+
		"does not know; "+
		"stop it (systemctl disable --now kubelet), or configure a separate runtime with --container-runtime-endpoint", e.PID,
		e.Endpoint)
}

// CheckKubelet returns a *KubeletError if a kubelet in the process table under
// proc uses the runtime at endpoint. Only processes of root in the same PID and mount
// namespaces count: a container's process can take any name and name any file. Processes
// that cannot be read or have ended are skipped, and so are those of podstead, which the locks
// of its directories keep apart.
func CheckKubelet(proc, endpoint string) error {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return fmt.Errorf("failed to look for a kubelet: %w", err)
	}
	want := socketIdentity(endpoint)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		process := filepath.Join(proc, e.Name())
		args := commandLine(filepath.Join(process, "cmdline"))
		if len(args) == 0 || filepath.Base(args[0]) != "kubelet" || !ofRoot(process) ||
			!sameNamespaces(filepath.Join(proc, "self"), process) || isPodstead(proc, e.Name()) {
			continue
		}
		used := kubeletEndpoint(args[1:], process)
		if socketIdentity(used) == want {
			return &KubeletError{PID: pid, Endpoint: endpoint}
		}
	}
	return nil
}

// isPodstead reports whether a process runs podstead, which may be called kubelet: this
// program, or another version of it that a link of that name points to.
func isPodstead(proc, pid string) bool {
	exe := filepath.Join(proc, pid, "exe")
	own, err := os.Stat(filepath.Join(proc, "self/exe"))
	if its, itsErr := os.Stat(exe); err == nil && itsErr == nil && os.SameFile(own, its) {
		return true
	}
	// The kernel resolves links, and marks a file that was replaced.
	path, err := os.Readlink(exe)
	return err == nil && filepath.Base(strings.TrimSuffix(path, " (deleted)")) == "podstead"
}

func commandLine(path string) []string {
	data, err := boundedfile.Head(path, maxCommandLine)
	if err != nil || len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(string(data), "\x00"), "\x00")
}

// ofRoot reports whether all user IDs of a process are 0, as this process sees them.
func ofRoot(process string) bool {
	data, err := boundedfile.Head(filepath.Join(process, "status"), maxCommandLine)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			return slices.Equal(strings.Fields(ids), []string{"0", "0", "0", "0"})
		}
	}
	return false
}

// sameNamespaces reports whether two processes share the PID and mount namespaces.
func sameNamespaces(own, other string) bool {
	for _, kind := range []string{"pid", "mnt"} {
		here, err := os.Readlink(filepath.Join(own, "ns", kind))
		there, otherErr := os.Readlink(filepath.Join(other, "ns", kind))
		if err != nil || otherErr != nil || here != there {
			return false
		}
	}
	return true
}

// kubeletEndpoint returns the endpoint in the kubelet's order: flag, config file, default.
func kubeletEndpoint(args []string, proc string) string {
	if e := flagValue(args, "container-runtime-endpoint"); e != "" {
		return e
	}
	if file := flagValue(args, "config"); file != "" {
		if !filepath.IsAbs(file) {
			file = filepath.Join(proc, "cwd", file)
		}
		if e := configEndpoint(file); e != "" {
			return e
		}
	}
	return kubeletDefaultEndpoint
}

func configEndpoint(file string) string {
	data, err := boundedfile.Read(file, maxKubeletConfig)
	if err != nil {
		return ""
	}
	var c struct {
		ContainerRuntimeEndpoint string `json:"containerRuntimeEndpoint"`
	}
	if yaml.Unmarshal(data, &c) != nil {
		return ""
	}
	return c.ContainerRuntimeEndpoint
}

// flagValue returns the value of --name VALUE or --name=VALUE, with one dash or two; the last
// one wins.
func flagValue(args []string, name string) string {
	value := ""
	for i, a := range args {
		key, v, joined := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-"), "=")
		switch {
		case key != name || !strings.HasPrefix(a, "-"):
		case joined:
			value = v
		case i+1 < len(args):
			value = args[i+1]
		}
	}
	return value
}

// socketIdentity returns the same value for different spellings of one socket: with or
// without a scheme, through symlinks (/var/run is a symlink to /run on most hosts).
func socketIdentity(endpoint string) string {
	path := strings.TrimPrefix(endpoint, "unix://")
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return filepath.Clean(path)
}
