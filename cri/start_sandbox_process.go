package cri

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// noSandboxProcessError is the error of a start that can only fail, because the runtime
// created the container while it did not know the process of the sandbox, whose
// namespaces the container joins. containerd takes the process ID 0 if the sandbox's
// shim has not responded within two seconds, as on a host with far more work than
// processors, and the container refers to /proc/0/ns for good. The pod is not at fault:
// the next container joins the sandbox.
type noSandboxProcessError struct{ error }

func (e noSandboxProcessError) Unwrap() error { return e.error }

func isNoSandboxProcess(err error) bool {
	var e noSandboxProcessError
	return errors.As(err, &e)
}

// removeWithoutSandboxProcess removes a container that failed to start with err, if that
// is for lack of the sandbox's process, and reports whether it did. The instance then
// counts neither as a restart nor by its log.
func (t *transaction) removeWithoutSandboxProcess(ctx context.Context, c *v1.Container, id string, number int,
	err error) bool {
	if !strings.Contains(err.Error(), "/proc/0/ns/") {
		return false
	}
	t.log.Warn("Container was created without the process of its sandbox, creating another", "pod",
		t.Pod.Namespace+"/"+t.Pod.Name, "container", c.Name, "err", err)
	if err := t.runtime.RemoveContainer(ctx, id); err != nil {
		return false
	}
	t.expectations.remove(t.Pod.UID, id)
	log := filepath.Join(t.sandboxConfig.LogDirectory, LogPath(c.Name, number))
	if info, err := os.Stat(log); err == nil && info.Size() == 0 {
		_ = os.Remove(log) // it would only take a number
	}
	return true
}
