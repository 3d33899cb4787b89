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
)

// The controllers that limits need, by the kernel's names.
const (
	controllerCPU     = "cpu"
	controllerMemory  = "memory"
	controllerPids    = "pids"
	controllerHugeTLB = "hugetlb"
)

// The controllers of version 1 that only count; version 2 counts in others.
const (
	controllerCPUAcct = "cpuacct"
	controllerBlkIO   = "blkio"
)

// counting are the controllers in which a pod has no values, only usage.
var countingControllers = []string{controllerCPUAcct, controllerBlkIO}

// limited are the controllers in which a pod has values.
var limitingControllers = []string{controllerCPU, controllerMemory, controllerPids, controllerHugeTLB}

// hierarchies are where this machine's cgroups are.
type hierarchies struct {
	// unified is the folder of the hierarchy of version 2 if that has the
	// controllers; empty if they are in hierarchies of version 1.
	unified string
	// byController are the folders of version 1, by controller.
	byController map[string]string
	// all are the folders of every hierarchy, each once: a runtime makes
	// cgroups in all of them.
	all []string
	// mkdir and rmdir make and remove one cgroup; in it the kernel puts and
	// removes the files, which a test has to do in its stead.
	mkdir func(folder string) error
	rmdir func(folder string) error
}

// mountinfoFile tells what is mounted.
const mountinfoFile = "/proc/self/mountinfo"

// folderMode is that of cgroups, as the kubelet and the runtimes make them.
const directoryMode = 0o755

// v2 reports whether the controllers are in the unified hierarchy.
func (h *hierarchies) v2() bool { return h.unified != "" }

// find reads a mountinfo file. The unified hierarchy counts if no controller
// is in one of version 1: in a mixed set-up it has none.
func findHierarchies(file string) (*hierarchies, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("failed to find the cgroup hierarchies: %w", err)
	}
	defer f.Close()
	h := &hierarchies{
		byController: map[string]string{},
		mkdir:        func(folder string) error { return os.Mkdir(folder, directoryMode) },
		rmdir:        syscall.Rmdir,
	}
	unified := ""
	mounts, err := mountinfo.GetMountsFromReader(f, mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, fmt.Errorf("failed to find the cgroup hierarchies: %w", err)
	}
	for _, m := range mounts {
		folder := m.Mountpoint
		if slices.Contains(h.all, folder) {
			continue
		}
		h.all = append(h.all, folder)
		if m.FSType == "cgroup2" {
			if unified == "" {
				unified = folder
			}
			continue
		}
		for _, option := range strings.Split(m.VFSOptions, ",") {
			if (slices.Contains(limitingControllers, option) || slices.Contains(countingControllers, option)) && h.byController[option] == "" {
				h.byController[option] = folder
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

// controllers are those that limits of a cgroup can be set with.
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
	return slices.DeleteFunc(strings.Fields(string(data)), func(c string) bool { return !slices.Contains(limitingControllers, c) }), nil
}

// folders are those of one cgroup, given by its path below the hierarchies'
// roots, in which values are set.
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

// everywhere are the folders of one cgroup in all hierarchies.
func (h *hierarchies) allDirectories(path string) []string {
	list := make([]string, 0, len(h.all))
	for _, root := range h.all {
		list = append(list, filepath.Join(root, path))
	}
	return list
}

// folder is that of one cgroup in the hierarchy of a controller, empty if the
// machine does not have it.
func (h *hierarchies) directory(controller, path string) string {
	if h.v2() {
		return filepath.Join(h.unified, path)
	}
	if root := h.byController[controller]; root != "" {
		return filepath.Join(root, path)
	}
	return ""
}

// make makes a cgroup and those above it in every hierarchy that has values,
// and in the unified one lets the controllers through to it.
func (h *hierarchies) create(path string) error {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for _, root := range h.directories("/") {
		folder := root
		for _, part := range parts {
			if h.v2() {
				if err := h.delegate(folder); err != nil {
					return err
				}
			}
			folder = filepath.Join(folder, part)
			if err := h.mkdir(folder); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("failed to create cgroup: %w", err)
			}
		}
	}
	return nil
}

// delegate lets all controllers of a cgroup through to those below it. One
// that the kernel refuses is missing below, and told of by who looks there.
func (h *hierarchies) delegate(folder string) error {
	file := filepath.Join(folder, "cgroup.subtree_control")
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("failed to read the enabled cgroup controllers: %w", err)
	}
	has, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers"))
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
