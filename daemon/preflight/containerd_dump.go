package preflight

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// maxConfigDump bounds what is read of a printed configuration; a usual one has 8 KiB.
const maxConfigDump = 1 << 20

// configFile returns the file that a process was started with --config or -c, empty without one.
func configFile(pid int) string {
	args := Arguments(pid)
	file := flagValue(args, "config")
	if file == "" {
		file = flagValue(args, "c")
	}
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return ""
	}
	return filepath.Join(dir, file)
}

// containerdPauseImage returns the sandbox image of a containerd, by its process, from the configuration that its own
// program prints: containerd 2 does not report it over CRI. It is empty if that cannot be found.
func containerdPauseImage(ctx context.Context, pid int) string {
	process := fmt.Sprintf("/proc/%d", pid)
	// Only what runs as root, with the files that this process sees, is run again.
	if pid == 0 || !ofRoot(process) || !sameNamespaces("/proc/self", process) {
		return ""
	}
	var args []string
	if file := configFile(pid); file != "" {
		args = []string{"--config", file}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dump := exec.CommandContext(ctx, filepath.Join(process, "exe"), append(args, "config", "dump")...)
	out, err := dump.StdoutPipe()
	if err != nil || dump.Start() != nil {
		return ""
	}
	image := pinnedSandbox(io.LimitReader(out, maxConfigDump))
	cancel()
	_ = dump.Wait() // what it printed is known
	return image
}

// pinnedSandbox returns the sandbox image in a printed configuration of containerd 2, which quotes like this:
//
//	[plugins.'io.containerd.cri.v1.images'.pinned_images]
//	  sandbox = 'registry.k8s.io/pause:3.10'
func pinnedSandbox(config io.Reader) string {
	inTable := false
	for lines := bufio.NewScanner(config); lines.Scan(); {
		line := strings.TrimSpace(strings.NewReplacer("'", "", `"`, "").Replace(lines.Text()))
		if strings.HasPrefix(line, "[") {
			inTable = line == "[plugins.io.containerd.cri.v1.images.pinned_images]"
		}
		if key, value, _ := strings.Cut(line, "="); inTable && strings.TrimSpace(key) == "sandbox" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
