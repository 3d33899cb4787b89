package supervisor

import (
	"context"
	"os"

	"github.com/podstead/podstead/cri"
)

// trim removes dead instances of containers but the newest of each, and
// sandboxes that none of them needs, with the logs of what it removes. The
// kubelet does so per pod when a container died; bounds across pods are the
// garbage collection's.
func (s *podScripts) trim(ctx context.Context, observed *cri.PodStatus, r *podRun) {
	old := superseded(observed)
	if len(old.Containers)+len(old.Sandboxes) == 0 {
		return
	}
	if err := s.remove(ctx, old, r); err != nil {
		// It is tried again at the next sync; nothing depends on it.
		if ctx.Err() == nil {
			s.cfg.Log.Debug("dead containers stay for now", "uid", observed.UID, "error", err)
		}
		return
	}
	for i := range old.Containers {
		s.removeContainerFiles(observed, &old.Containers[i])
	}
}

// superseded are the dead instances and sandboxes of a pod that goes on which
// nobody needs any more: of each container the newest instance stays, and the
// newest that has exited (its logs are those of kubectl logs --previous).
func superseded(observed *cri.PodStatus) *cri.Pod {
	type kept struct{ newest, exited bool }
	seen := map[string]kept{}
	sandboxes := map[string]bool{}
	old := &cri.Pod{UID: observed.UID, Name: observed.Name, Namespace: observed.Namespace}
	for i := range observed.Containers {
		c := &observed.Containers[i]
		k := seen[c.Name]
		running := c.State == cri.StateRunning || c.State == cri.StateUnknown
		if !k.newest || running || c.State == cri.StateExited && !k.exited {
			k.newest = true
			k.exited = k.exited || c.State == cri.StateExited
			seen[c.Name] = k
			sandboxes[c.SandboxID] = true
			continue
		}
		old.Containers = append(old.Containers, *c)
	}
	for i := range observed.Sandboxes {
		if sb := &observed.Sandboxes[i]; i > 0 && !sb.Ready && !sandboxes[sb.ID] {
			old.Sandboxes = append(old.Sandboxes, *sb)
		}
	}
	return old
}

// removeContainerFiles removes the log and the termination message of an
// instance that is gone. Both paths come from the runtime, so that each is
// checked to lie in the pod's own folder.
func (s *podScripts) removeContainerFiles(pod *cri.PodStatus, c *cri.Container) {
	if logs := s.podLogs(pod.Namespace, pod.Name, pod.UID); within(logs, c.LogPath) {
		_ = os.Remove(c.LogPath)
		removeLinks(s.cfg.Paths.ContainerLogs, func(target string) bool { return target == c.LogPath })
	}
	if within(s.podDir(pod.UID), c.TerminationMessageHost) {
		_ = os.Remove(c.TerminationMessageHost)
	}
}
