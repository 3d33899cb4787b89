package podinputs

import (
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The directories of containers within the pod's directory, and the mode of the
// file to which a container of any user writes its termination message.
const (
	containersDir          = "containers"
	containerDirMode       = 0o750
	terminationMessageMode = 0o666
)

// terminationMessageFile creates a file for one instance of a container, and returns
// its path. The name is random as in the kubelet: an instance never finds the
// message of its predecessor.
func (r *Resolver) terminationMessageFile(pod *v1.Pod, c *v1.Container) (string, error) {
	if c.TerminationMessagePath == "" {
		return "", nil
	}
	root, err := r.cfg.Volumes.PodDir(pod.UID)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, containersDir, c.Name)
	if err := os.MkdirAll(dir, containerDirMode); err != nil {
		return "", fmt.Errorf("failed to create the container's directory: %w", err)
	}
	f, err := os.CreateTemp(dir, "")
	if err != nil {
		return "", fmt.Errorf("failed to create the termination message file: %w", err)
	}
	defer f.Close()
	if err := f.Chmod(terminationMessageMode); err != nil {
		return "", fmt.Errorf("failed to make the termination message file writable: %w", err)
	}
	return f.Name(), nil
}

// MessagesDir returns the directory of the termination messages of the pod's
// containers, empty for an invalid UID.
func (r *Resolver) MessagesDir(uid types.UID) string {
	dir, err := r.cfg.Volumes.PodDir(uid)
	if err != nil {
		return ""
	}
	return filepath.Join(dir, containersDir)
}
