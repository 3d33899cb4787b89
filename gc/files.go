package gc

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

const (
	// keptInstances is how many instances of a container keep their logs even if
	// the runtime has forgotten them, as some do at a reboot: the running one and
	// the one before.
	keptInstances = 2
	// orphanedMessageAge is the age at which a termination message of an unknown
	// container is removed: it is created before its container.
	orphanedMessageAge = time.Hour
	// maxMessage is the size in bytes to which a termination message is cut: the
	// status shows the last 4096 bytes, which are all valid characters if it has more.
	maxMessage = 8192
)

// Files are the directories in which containers leave files.
type Files struct {
	// Logs contains the pods' log directories, Links the links to logs.
	Logs, Links string
	// Messages returns a pod's directory of termination messages, which has a
	// directory for each container; empty if it has none.
	Messages func(uid types.UID) string
}

// sweep removes the logs and termination messages that are no longer needed:
// those of the removed containers (gone may be nil), and those of instances that
// are neither known to the runtime nor the newest. It returns the removed logs.
func (f Files) sweep(pod, gone *cri.Pod) (logs []string) {
	removed := map[string]bool{}
	if gone != nil {
		for i := range gone.Containers {
			c := &gone.Containers[i]
			removed[c.ID] = true
			// The runtime reported the path, so it is checked first.
			if dir := f.Messages(pod.UID); dir != "" &&
				filepath.Dir(filepath.Dir(c.TerminationMessageHost)) == filepath.Clean(dir) {
				_ = os.Remove(c.TerminationMessageHost)
			}
		}
	}
	type instance struct {
		container string
		number    int
	}
	left, went := map[instance]bool{}, map[instance]bool{}
	messages := map[string]bool{}
	for i := range pod.Containers {
		c := &pod.Containers[i]
		of := instance{c.Name, c.RestartCount}
		if removed[c.ID] {
			went[of] = true
		} else {
			left[of] = true
			messages[c.TerminationMessageHost] = c.State == cri.StateExited
		}
	}
	dir := cri.LogDirectory(f.Logs, pod.Namespace, pod.Name, pod.UID)
	if !within(f.Logs, dir) {
		return nil
	}
	for _, container := range subdirectories(dir) {
		containerDir := filepath.Join(dir, container)
		files := logsIn(containerDir)
		numbers := slices.Sorted(maps.Keys(files))
		newest := numbers[max(0, len(numbers)-keptInstances):]
		for _, n := range numbers {
			of := instance{container, n}
			if left[of] || !went[of] && slices.Contains(newest, n) {
				continue
			}
			for _, name := range files[n] {
				// What cannot be removed is removed with the pod.
				_ = removeLog(filepath.Join(containerDir, name))
			}
			logs = append(logs, filepath.Join(dir, cri.LogPath(container, n)))
		}
	}
	f.sweepMessages(pod.UID, messages)
	return logs
}

// sweepMessages removes termination messages of containers that are gone, and cuts
// those of containers that have ended to the part that is shown. ended has the files of
// all known containers, and whether these have ended.
func (f Files) sweepMessages(uid types.UID, ended map[string]bool) {
	dir := f.Messages(uid)
	if dir == "" {
		return
	}
	for _, container := range subdirectories(dir) {
		containerDir := filepath.Join(dir, container)
		entries, _ := os.ReadDir(containerDir)
		for _, e := range entries {
			path := filepath.Join(containerDir, e.Name())
			if !e.Type().IsRegular() {
				continue
			}
			if over, known := ended[path]; known {
				if over {
					cutMessage(path)
				}
				continue
			}
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > orphanedMessageAge {
				_ = os.Remove(path)
			}
		}
	}
}

// CutMessages cuts the termination messages of a pod of which nothing runs any more to
// the part that is shown.
func (f Files) CutMessages(uid types.UID) {
	dir := f.Messages(uid)
	if dir == "" {
		return
	}
	for _, container := range subdirectories(dir) {
		entries, _ := os.ReadDir(filepath.Join(dir, container))
		for _, e := range entries {
			cutMessage(filepath.Join(dir, container, e.Name()))
		}
	}
}

// cutMessage cuts a termination message to its last bytes, which are all that is
// shown. What cannot be cut is removed with the pod.
func cutMessage(path string) {
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() <= maxMessage {
		return
	}
	tail := make([]byte, maxMessage)
	if _, err := file.ReadAt(tail, info.Size()-maxMessage); err != nil {
		return
	}
	if file.Truncate(0) == nil {
		_, _ = file.WriteAt(tail, 0)
	}
}

// RemovePodLogs removes the logs of a pod and the links to them. The logs of pods of
// other daemons look the same, so that only the directory with this UID is removed.
func (f Files) RemovePodLogs(uid types.UID) error {
	entries, err := os.ReadDir(f.Logs)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("failed to list pod logs: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "_"+string(uid)) {
			continue
		}
		dir := filepath.Join(f.Logs, e.Name())
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("failed to remove pod logs: %w", err)
		}
		f.removeLinks(func(target string) bool {
			return target == filepath.Clean(target) && strings.HasPrefix(target, dir+"/")
		})
	}
	return nil
}

// removeLinksTo removes the links to removed logs.
func (f Files) removeLinksTo(logs []string) {
	went := map[string]bool{}
	for _, log := range logs {
		went[log] = true
	}
	f.removeLinks(func(target string) bool { return went[target] })
}

// removeDanglingLinks removes links into directories of pods that are gone. Links
// of which only the log is missing are kept: it may be rotated at this moment.
func (f Files) removeDanglingLinks() {
	f.removeLinks(func(target string) bool {
		pod := filepath.Dir(filepath.Dir(target))
		if filepath.Dir(pod) != filepath.Clean(f.Logs) {
			return false // not a log in this directory
		}
		_, err := os.Lstat(pod)
		return os.IsNotExist(err)
	})
}

func (f Files) removeLinks(match func(target string) bool) {
	entries, _ := os.ReadDir(f.Links)
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		link := filepath.Join(f.Links, e.Name())
		if target, err := os.Readlink(link); err == nil && match(target) {
			_ = os.Remove(link)
		}
	}
}

// logsIn returns the names of the logs in a container's directory by the number
// of the instance, rotated ones included.
func logsIn(containerDir string) map[int][]string {
	entries, _ := os.ReadDir(containerDir)
	files := map[int][]string{}
	for _, e := range entries {
		number, rest, ok := strings.Cut(e.Name(), ".log")
		n, err := strconv.Atoi(number)
		if ok && err == nil && n >= 0 && (rest == "" || rest[0] == '.') && !e.IsDir() {
			files[n] = append(files[n], e.Name())
		}
	}
	return files
}

// subdirectories returns the names of the directories in a directory, without
// links.
func subdirectories(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// within reports whether a path is directly in a directory.
func within(dir, path string) bool { return filepath.Dir(path) == filepath.Clean(dir) }
