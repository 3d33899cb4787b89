package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/podstead/podstead/internal/retry"
)

// killPasses is how often the processes in a pod's cgroup are killed before that
// counts as failed, as at the kubelet. Between two passes the processes have
// killPause to end; the pause grows with each pass.
const (
	killPasses = 5
	killPause  = 10 * time.Millisecond
)

// killAll kills every process in a cgroup and those below it, in all hierarchies.
func (c *Cgroups) killAll(ctx context.Context, path string) error {
	var left []int
	for pass := range killPasses {
		pids, err := processes(c.hierarchies.allDirectories(path))
		if err != nil {
			return err
		}
		if left = pids; len(left) == 0 {
			return nil
		}
		c.log.Warn("Killing processes that outlived their pod", "cgroup", path, "pids", left)
		for _, pid := range left {
			if err := c.kill(pid); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("failed to kill process %d in cgroup %s: %w", pid, path, err)
			}
		}
		if !retry.Sleep(ctx, killPause<<(2*pass)) {
			return context.Cause(ctx)
		}
	}
	if pids, err := processes(c.hierarchies.allDirectories(path)); err != nil || len(pids) == 0 {
		return err
	}
	return fmt.Errorf("processes %v in cgroup %s are still running after %d SIGKILLs", left, path, killPasses)
}

// processes returns the IDs of the processes in directories and below. A process
// in another PID namespace has none here; pid 1 and this process are never
// returned.
func processes(directories []string) ([]int, error) {
	var pids []int
	for _, dir := range directories {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && !d.IsDir() {
				return nil
			}
			if err != nil {
				return err
			}
			data, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
				return nil // the cgroup was just removed
			}
			if err != nil {
				return err
			}
			for _, text := range strings.Fields(string(data)) {
				pid, err := strconv.Atoi(text)
				if err == nil && pid > 1 && pid != os.Getpid() && !slices.Contains(pids, pid) {
					pids = append(pids, pid)
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("failed to list the processes in cgroup %s: %w", dir, err)
		}
	}
	return pids, nil
}

// remove removes a cgroup with those below it in all hierarchies. The kernel
// removes none that has processes.
func (h *hierarchies) remove(path string) error {
	var errs []error
	for _, dir := range h.allDirectories(path) {
		if err := h.removeTree(dir); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (h *hierarchies) removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to remove cgroup: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := h.removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := h.rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to remove cgroup %s: %w", dir, err)
	}
	return nil
}
