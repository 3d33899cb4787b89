package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"

	"github.com/podstead/podstead/internal/mounts"
)

// The controllers that limits need, by the kernel's names.
const (
	controllerCPU     = "cpu"
	controllerMemory  = "memory"
	controllerPids    = "pids"
	controllerHugeTLB = "hugetlb"
)

// The v1 controllers that only count; v2 counts in the controllers above.
const (
	controllerCPUAcct = "cpuacct"
	controllerBlkIO   = "blkio"
)

// countingControllers are the controllers in which a pod has only usage, no
// values.
var countingControllers = []string{controllerCPUAcct, controllerBlkIO}

// limitingControllers are the controllers in which a pod has values.
var limitingControllers = []string{controllerCPU, controllerMemory, controllerPids, controllerHugeTLB}

// hierarchies are the mount points of this machine's cgroups.
type hierarchies struct {
	// unified is the directory of the v2 hierarchy if it has the controllers; empty
	// if they are in v1 hierarchies.
	unified string
	// byController are the v1 directories by controller.
	byController map[string]string
	// all are the directories of every hierarchy, each once: a runtime creates
	// cgroups in all of them.
	all []string
	// cpuset: the v1 controller that binds processes to CPUs is mounted.
	cpuset bool
	// mkdir and rmdir create and remove one cgroup. The kernel creates and removes
	// the files in it, which a test must do instead.
	mkdir func(dir string) error
	rmdir func(dir string) error
}

// mountinfoFile lists the mounts.
const mountinfoFile = "/proc/self/mountinfo"

// directoryMode is the mode of cgroups, as the kubelet and the runtimes create
// them.
const directoryMode = 0o755

// v2 reports whether the controllers are in the unified hierarchy.
func (h *hierarchies) v2() bool { return h.unified != "" }

// findHierarchies reads a mountinfo file. The unified hierarchy counts if no
// controller is in a v1 hierarchy: in a hybrid setup it has none.
func findHierarchies(file string) (*hierarchies, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("failed to find the cgroup hierarchies: %w", err)
	}
	defer f.Close()
	h := &hierarchies{
		byController: map[string]string{},
		mkdir:        func(dir string) error { return os.Mkdir(dir, directoryMode) },
		rmdir:        syscall.Rmdir,
	}
	unified := ""
	found, err := mounts.Read(f, mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, fmt.Errorf("failed to find the cgroup hierarchies: %w", err)
	}
	for _, m := range found {
		dir := m.Mountpoint
		if slices.Contains(h.all, dir) {
			continue
		}
		h.all = append(h.all, dir)
		if m.FSType == "cgroup2" {
			if unified == "" {
				unified = dir
			}
			continue
		}
		for _, option := range strings.Split(m.VFSOptions, ",") {
			h.cpuset = h.cpuset || option == "cpuset"
			if (slices.Contains(limitingControllers, option) || slices.Contains(countingControllers, option)) &&
				h.byController[option] == "" {
				h.byController[option] = dir
			}
		}
	}
	switch {
	case len(h.byController) > 0:
	case unified != "":
		h.unified = unified
	default:
		return nil, errors.New("no cgroup hierarchy is mounted")
	}
	return h, nil
}

// controllers returns the controllers that can limit a cgroup.
func (h *hierarchies) controllers(path string) ([]string, error) {
	if !h.v2() {
		var list []string
		for _, c := range limitingControllers {
			if h.byController[c] != "" {
				list = append(list, c)
			}
		}
		return list, nil
	}
	data, err := os.ReadFile(filepath.Join(h.unified, path, "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("failed to read the available cgroup controllers: %w", err)
	}
	return slices.DeleteFunc(strings.Fields(string(data)),
		func(c string) bool { return !slices.Contains(limitingControllers, c) }), nil
}

// directories returns the directories of a cgroup, given by its path in the
// hierarchies, in which values are set.
func (h *hierarchies) directories(path string) []string {
	if h.v2() {
		return []string{filepath.Join(h.unified, path)}
	}
	var list []string
	for _, c := range limitingControllers {
		if root := h.byController[c]; root != "" && !slices.Contains(list, filepath.Join(root, path)) {
			list = append(list, filepath.Join(root, path))
		}
	}
	return list
}

// allDirectories returns the directories of a cgroup in all hierarchies.
func (h *hierarchies) allDirectories(path string) []string {
	list := make([]string, 0, len(h.all))
	for _, root := range h.all {
		list = append(list, filepath.Join(root, path))
	}
	return list
}

// directory returns the directory of a cgroup in the hierarchy of a controller,
// empty if the machine does not have it.
func (h *hierarchies) directory(controller, path string) string {
	if h.v2() {
		return filepath.Join(h.unified, path)
	}
	if root := h.byController[controller]; root != "" {
		return filepath.Join(root, path)
	}
	return ""
}

// create creates a cgroup and its ancestors in every hierarchy with values, and in
// the unified one enables the controllers on the way.
func (h *hierarchies) create(path string) error {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for _, root := range h.directories("/") {
		dir := root
		for _, part := range parts {
			if h.v2() {
				if err := h.delegate(dir); err != nil {
					return err
				}
			}
			dir = filepath.Join(dir, part)
			if err := h.mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("failed to create cgroup: %w", err)
			}
		}
	}
	return nil
}

// delegate enables all controllers of a cgroup for its children. A controller that
// the kernel refuses is missing below, and reported when a pod needs it.
func (h *hierarchies) delegate(dir string) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("failed to read the enabled cgroup controllers: %w", err)
	}
	has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("failed to read the available cgroup controllers: %w", err)
	}
	through := strings.Fields(string(data))
	for _, controller := range strings.Fields(string(has)) {
		if slices.Contains(through, controller) {
			continue
		}
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString("+" + controller)
		_ = f.Close()
		if err != nil && slices.Contains(limitingControllers, controller) {
			return fmt.Errorf("failed to enable cgroup controller %s in %s: %w", controller, file, err)
		}
	}
	return nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
