package preflight

import (
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

// containerdDump returns the configuration that a containerd, by its process, has in effect, as its own program prints
// it: containerd 2 reports none over CRI. It is empty if that cannot be found.
func containerdDump(ctx context.Context, pid int) string {
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
	text, _ := io.ReadAll(io.LimitReader(out, maxConfigDump))
	cancel()
	_ = dump.Wait() // what it printed is known
	return string(text)
}

// pinnedSandbox returns the sandbox image in a printed configuration of containerd 2, which quotes like this:
//
//	[plugins.'io.containerd.cri.v1.images'.pinned_images]
//	  sandbox = 'registry.k8s.io/pause:3.10'
func pinnedSandbox(config string) string {
	inTable := false
	for line := range strings.Lines(config) {
		line = strings.TrimSpace(strings.NewReplacer("'", "", `"`, "").Replace(line))
		if strings.HasPrefix(line, "[") {
			inTable = line == "[plugins.io.containerd.cri.v1.images.pinned_images]"
		}
		if key, value, _ := strings.Cut(line, "="); inTable && strings.TrimSpace(key) == "sandbox" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
