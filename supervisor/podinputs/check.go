package podinputs

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/status"
	"github.com/podstead/podstead/supervisor/volume"
)

// reasonConfig is the kubelet's, of a container that cannot be configured.
const reasonConfig = "CreateContainerConfigError"

// CheckVolumes returns why the volumes of a pod, which does not run, could not be set up because of what
// they refer to; nil if they could. It does no I/O. What depends on the host is left to the start.
func (r *Resolver) CheckVolumes(pod *v1.Pod) *status.Cause {
	err := r.cfg.Volumes.CheckFiles(&volume.Request{
		Pod: pod, Objects: r.objectsOf(pod),
		Downward: func(item *v1.DownwardAPIVolumeFile) (string, error) {
			return downwardFile(pod, item, r.cfg.Allocatable)
		},
	})
	if err != nil {
		return &status.Cause{Reason: ReasonFailedMount, Message: err.Error()}
	}
	return nil
}

// Check returns why the pod, which does not run, could not start because of what it
// refers to: its classes, and objects or keys that do not exist; nil if all of it can be
// resolved. It does no I/O. What depends on the host is left to the start: paths of the
// host, and files in volumes.
func (r *Resolver) Check(pod *v1.Pod) *status.Cause {
	resolved := r.Resolve(pod)
	if resolved.Fault != nil {
		return resolved.Fault
	}
	if missing := r.MissingObjects(pod); missing != "" {
		return &status.Cause{Reason: reasonConfig, Message: strings.ReplaceAll(missing, "\n", "; ")}
	}
	// The addresses are known only when the sandbox runs.
	input := r.envInput(pod, []string{"127.0.0.1"}, nil)
	input.openFile = func(string, string) (io.ReadCloser, error) { return nil, errors.ErrUnsupported }
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		if slices.ContainsFunc(c.Env, func(e v1.EnvVar) bool { return e.ValueFrom != nil && e.ValueFrom.FileKeyRef != nil }) {
			continue
		}
		if _, err := resolveEnv(c, input); err != nil {
			return &status.Cause{Reason: reasonConfig, Message: fmt.Sprintf("container %q: %v", c.Name, err)}
		}
	}
	return nil
}
