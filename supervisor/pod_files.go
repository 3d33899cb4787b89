package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// within reports whether a path lies in a folder. An empty folder holds nothing.
func within(dir, path string) bool {
	return dir != "" && path == filepath.Clean(path) && strings.HasPrefix(path, dir+"/")
}

// removeFolders removes the pod's volumes, its folder and its logs. The logs of
// pods that are not ours look the same, so that only those with the UID of a
// pod that was ours are touched.
func (s *podSyncer) removeFolders(uid types.UID) error {
	if err := s.volumes.Remove(uid); err != nil {
		return err
	}
	return s.removeLogs(uid)
}

func (s *podSyncer) removeLogs(uid types.UID) error {
	entries, err := os.ReadDir(s.cfg.Paths.PodLogs)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("cannot look for the pod's logs: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), "_"+string(uid)) {
			continue
		}
		logs := filepath.Join(s.cfg.Paths.PodLogs, entry.Name())
		if err := os.RemoveAll(logs); err != nil {
			return fmt.Errorf("cannot remove the pod's logs: %w", err)
		}
		removeLinks(s.cfg.Paths.ContainerLogs, func(target string) bool { return within(logs, target) })
	}
	return nil
}

// removeLinks removes the links of a folder whose targets match.
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
