package devices_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/testbed/deviceplugin"
)

// inotifyWatches returns the number of inotify watches of this process.
func inotifyWatches(t *testing.T) (count int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/fdinfo/*")
	check(t, err)
	for _, file := range files {
		info, err := os.ReadFile(file)
		if err != nil {
			continue // closed meanwhile
		}
		count += strings.Count(string(info), "inotify wd:")
	}
	return count
}

// goroutines returns the number of goroutines of the package and of the libraries that it uses. Those
// of tests that have ended can still be there, like their watches, and go away.
func goroutines() (n int) {
	buffer := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		if strings.Contains(stack, "podstead/node/devices.(") || strings.Contains(stack, "fsnotify.(") ||
			strings.Contains(stack, "google.golang.org/grpc") {
			n++
		}
	}
	return n
}

// Without plugins and local devices a manager has one watch, that of its directory, and three
// goroutines: Run, the server of the registration socket, and the reader of the watch. What a plugin
// needs in addition ends with it.
func TestIdleCost(t *testing.T) {
	n := newNode(t)
	idle := func() {
		t.Helper()
		n.await("goroutines and watches without plugins", func() bool {
			return goroutines() == 3 && inotifyWatches(t) == 1
		})
	}
	idle()
	plugin := n.plugin(deviceplugin.Options{Devices: []string{"a"}})
	n.awaitAllocatable(1)
	if now := goroutines(); now <= 3 {
		t.Fatalf("%d goroutines with a plugin: they are not counted", now)
	}
	plugin.Stop()
	n.awaitAllocatable(0)
	idle()
}
