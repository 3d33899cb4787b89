package testbed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// CgroupCommand returns a command that first moves itself into a cgroup of its own in every
// hierarchy, below the test bed's. It is for a program that creates cgroups next to its own, as
// systemd in a container does: two of them in one cgroup remove each other's cgroups.
func CgroupCommand(cgroup, name string, args ...string) (*exec.Cmd, error) {
	dirs, err := createCgroups(filepath.Join(filepath.Base(Dir()), cgroup))
	if err != nil {
		return nil, err
	}
	script := `for dir in $0; do echo $$ > "$dir/cgroup.procs" || exit; done; exec "$@"`
	return exec.Command("sh", append([]string{"-c", script, strings.Join(dirs, " "), name}, args...)...), nil
}

// createCgroups creates a cgroup below that of this process in every hierarchy, and returns
// their directories.
func createCgroups(cgroup string) ([]string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var dirs []string
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			return nil, fmt.Errorf("/proc/self/cgroup has the line %q", line)
		}
		parent := filepath.Join(hierarchy(fields[1]), fields[2])
		dir := filepath.Join(parent, cgroup)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		if fields[1] == "cpuset" {
			if err := inheritCpuset(parent, cgroup); err != nil {
				return nil, err
			}
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// hierarchy returns where the hierarchy of controllers is mounted, as in /proc/self/cgroup.
func hierarchy(controllers string) string {
	const root = "/sys/fs/cgroup"
	name, named := strings.CutPrefix(controllers, "name=")
	switch _, err := os.Stat(filepath.Join(root, "cgroup.procs")); {
	case controllers != "" && named:
		return filepath.Join(root, name)
	case controllers != "":
		return filepath.Join(root, controllers)
	case err == nil:
		return root
	default:
		return filepath.Join(root, "unified")
	}
}

// inheritCpuset copies the CPUs and memory nodes of a cgroup to those below it, which have none
// at first and can have no process then.
func inheritCpuset(parent, cgroup string) error {
	dir := parent
	var failed error
	for part := range strings.SplitSeq(cgroup, "/") {
		dir = filepath.Join(dir, part)
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			content, err := os.ReadFile(filepath.Join(parent, file))
			failed = errors.Join(failed, err, os.WriteFile(filepath.Join(dir, file), content, 0o644))
		}
	}
	return failed
}
