package volume

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/internal/mounts"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// mountOnce creates a directory and mounts a file system on it, unless one of that
// type is mounted there. made reports whether it mounted one.
func mountOnce(path, fsType string, magic uint32, options ...string) (made bool, err error) {
	if err := os.MkdirAll(path, podMode); err != nil {
		return false, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return false, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	if uint32(st.Type) == magic {
		if top, err := mounts.IsMountPoint(path); err != nil || top {
			return false, err
		}
	}
	if err := unix.Mount(fsType, path, fsType, unix.MS_NOSUID|unix.MS_NODEV, strings.Join(options, ",")); err != nil {
		return false, fmt.Errorf("failed to mount %s on %s: %w", fsType, path, err)
	}
	return true, nil
}

// mountTmpfs mounts a tmpfs that is never swapped out, where the kernel supports that
// (Linux 6.4). mode is as in chmod(2), size in bytes; 0 is the kernel's default, half the memory.
func mountTmpfs(path string, mode uint32, size int64) (made bool, err error) {
	options := []string{fmt.Sprintf("mode=%04o", mode)}
	if size > 0 {
		options = append(options, fmt.Sprintf("size=%d", size))
	}
	made, err = mountOnce(path, "tmpfs", unix.TMPFS_MAGIC, append(options, "noswap")...)
	if errors.Is(err, unix.EINVAL) {
		made, err = mountOnce(path, "tmpfs", unix.TMPFS_MAGIC, options...)
	}
	return made, err
}

// memorySize returns the size of an emptyDir in memory, in bytes: the smallest of the
// node's allocatable memory, the pod's memory limit and the volume's sizeLimit.
func memorySize(pod *v1.Pod, limit *resource.Quantity, node int64) int64 {
	size := node
	for _, bound := range []int64{podMemoryLimit(&pod.Spec), limit.Value()} {
		if bound > 0 && (size == 0 || bound < size) {
			size = bound
		}
	}
	return size
}

// podMemoryLimit returns the memory limit of the pod's cgroup in bytes: its own, or
// the sum of its containers' limits if each has one, 0 if there is none.
func podMemoryLimit(spec *v1.PodSpec) int64 {
	if spec.Resources != nil {
		if own, ok := spec.Resources.Limits[v1.ResourceMemory]; ok {
			return own.Value()
		}
	}
	limit := func(c *v1.Container) int64 { return c.Resources.Limits.Memory().Value() }
	// Sidecars run in parallel with all containers that start after them.
	var sidecars, starting, running int64
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if limit(c) == 0 {
			return 0
		}
		if podinfo.IsSidecar(c) {
			sidecars += limit(c)
			starting = max(starting, sidecars)
		} else {
			starting = max(starting, sidecars+limit(c))
		}
	}
	for i := range spec.Containers {
		if limit(&spec.Containers[i]) == 0 {
			return 0
		}
		running += limit(&spec.Containers[i])
	}
	return max(starting, sidecars+running) + spec.Overhead.Memory().Value()
}

// pageSize returns the page size of a medium of huge pages. HugePages alone stands
// for the only size that the pod's containers request.
func pageSize(pod *v1.Pod, medium v1.StorageMedium) (resource.Quantity, error) {
	if size, ok := strings.CutPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix)); ok {
		return resource.ParseQuantity(size)
	}
	sizes := map[string]bool{}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		for name := range c.Resources.Requests {
			if size, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix); ok {
				sizes[size] = true
			}
		}
	}
	if len(sizes) != 1 {
		return resource.Quantity{}, fmt.Errorf("medium HugePages needs containers that request huge pages of exactly one "+
			"size, and they request %d; state the size in the medium, such as HugePages-2Mi", len(sizes))
	}
	for size := range sizes {
		return resource.ParseQuantity(size)
	}
	panic("unreachable")
}
