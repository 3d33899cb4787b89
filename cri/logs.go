package cri

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// The kubelet's directories for logs, which log shippers read.
const (
	DefaultLogRoot  = "/var/log/pods"
	DefaultLogLinks = "/var/log/containers"
)

const (
	// maxFileName is ext4's limit, as for the kubelet.
	maxFileName = 255
	logSuffix   = ".log"
	logDirMode  = 0o755
)

// LogDirectory returns the directory of a pod's logs: ROOT/NAMESPACE_NAME_UID.
func LogDirectory(root, namespace, name string, uid types.UID) string {
	return filepath.Join(root, namespace+"_"+name+"_"+string(uid))
}

// LogPath returns the log of one instance of a container, relative to the pod's
// log directory: CONTAINER/N.log.
func LogPath(container string, restartCount int) string {
	return filepath.Join(container, strconv.Itoa(restartCount)+logSuffix)
}

// LogLink returns the file name of the link to a container's log:
// POD_NAMESPACE_CONTAINER-ID.log, truncated before .log if it is too long for a
// file name.
func LogLink(namespace, pod, container, id string) string {
	base := fmt.Sprintf("%s_%s_%s-%s", pod, namespace, container, id)
	if most := maxFileName - len(logSuffix); len(base) > most {
		base = base[:most]
	}
	return base + logSuffix
}

// nextLogNumber returns the number after the highest in a container's log
// directory, rotated logs included; 0 if there is none. Some runtimes forget
// their containers at a reboot, and an old log must not be appended to.
func nextLogNumber(dir string) (int, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	next := 0
	for _, entry := range entries {
		number, _, isLog := strings.Cut(entry.Name(), logSuffix)
		if n, err := strconv.Atoi(number); isLog && err == nil && n >= next {
			next = n + 1
		}
	}
	return next, nil
}

// linkLog creates the link to a container's log. A log that does not exist (a
// runtime may write elsewhere) gets none, since it would dangle.
func linkLog(dir, link, log string) error {
	if _, err := os.Stat(log); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.MkdirAll(dir, logDirMode); err != nil {
		return err
	}
	path := filepath.Join(dir, link)
	err := os.Symlink(log, path)
	if errors.Is(err, fs.ErrExist) {
		if target, readErr := os.Readlink(path); readErr == nil && target == log {
			return nil
		}
		if err = os.Remove(path); err == nil {
			err = os.Symlink(log, path)
		}
	}
	return err
}

// removeLogs removes the log of an instance and its rotated files. What cannot be
// removed is removed with the pod.
func removeLogs(log string) {
	dir, base := filepath.Split(log)
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if name := entry.Name(); name == base || strings.HasPrefix(name, base+".") {
			_ = os.Remove(filepath.Join(dir, name))
		}
	}
}
