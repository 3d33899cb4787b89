package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/supervisor/volume"
)

// podFiles are the directories of pods on this host: volumes and logs.
type podFiles struct {
	volumes *volume.Volumes
	paths   Paths
}

// remove removes the pod's volumes, its directory and its logs. The logs of pods of
// other daemons look the same, so that only those with the UID of a pod of this
// daemon are removed.
func (f podFiles) remove(uid types.UID) error {
	if err := f.volumes.Remove(uid); err != nil {
		return err
	}
	return f.removeLogs(uid)
}

func (f podFiles) removeLogs(uid types.UID) error {
	entries, err := os.ReadDir(f.paths.PodLogs)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("failed to list pod logs: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), "_"+string(uid)) {
			continue
		}
		logs := filepath.Join(f.paths.PodLogs, entry.Name())
		if err := os.RemoveAll(logs); err != nil {
			return fmt.Errorf("failed to remove pod logs: %w", err)
		}
		removeLinks(f.paths.ContainerLogs, func(target string) bool { return within(logs, target) })
	}
	return nil
}

// within reports whether a path is in a directory.
func within(dir, path string) bool {
	return dir != "" && path == filepath.Clean(path) && strings.HasPrefix(path, dir+"/")
}

// removeLinks removes the symbolic links of a directory whose targets match.
func removeLinks(dir string, match func(target string) bool) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.Type()&os.ModeSymlink == 0 {
			continue
		}
		link := filepath.Join(dir, entry.Name())
		if target, err := os.Readlink(link); err == nil && match(target) {
			_ = os.Remove(link)
		}
	}
}
