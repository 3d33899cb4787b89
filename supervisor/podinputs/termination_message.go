package podinputs

import (
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Folders of containers within a pod's, and the mode of the file that a
// container, whatever its user, writes its termination message to.
const (
	containersDir          = "containers"
	containerDirMode       = 0o750
	terminationMessageMode = 0o666
)

// terminationMessageFile makes a new file for one instance of a container. The
// name is random as in the kubelet: an instance never finds the message of the
// one before it.
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
		return "", fmt.Errorf("cannot make the container's folder: %w", err)
	}
	f, err := os.CreateTemp(dir, "")
	if err != nil {
		return "", fmt.Errorf("cannot make the file for the termination message: %w", err)
	}
	defer f.Close()
	if err := f.Chmod(terminationMessageMode); err != nil {
		return "", fmt.Errorf("cannot open the termination message to the container: %w", err)
	}
	return f.Name(), nil
}

// MessagesDir returns where the pod's containers leave their termination messages,
// empty for an invalid UID.
func (r *Resolver) MessagesDir(uid types.UID) string {
	dir, err := r.cfg.Volumes.PodDir(uid)
	if err != nil {
		return ""
	}
	return filepath.Join(dir, containersDir)
}
