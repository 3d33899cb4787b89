package faults

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// countFiles counts the files below a directory and their bytes.
func countFiles(t *testing.T, dir string) (files int, bytes int64) {
	t.Helper()
	// A file that is removed meanwhile is not counted.
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			files, bytes = files+1, bytes+info.Size()
		}
		return nil
	})
	return files, bytes
}

// A pod in a crash loop leaves no more after thirty restarts than after a few: the last
// instance of each container, and its log.
func TestCrashLoopFillsNothing(t *testing.T) {
	const containers, printed = 6, 50_000
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.Args = []string{"--max-container-restart-period", "1s"}
		text := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers:\n"
		for i := range containers {
			text += fmt.Sprintf("  - {name: c%d, image: %s, command: [sh, -c, \"echo begin; head -c %d /dev/zero | tr '\\\\0' "+
				"x; exit 1\"]}\n", i, testbed.BusyboxImage, printed)
		}
		n.WriteManifest("p.yaml", text)
		n.MustStart()
		n.AwaitStatus("p", "reported", func(v1.Pod) error { return nil })
		restarts := 0
		for restarts < 30 {
			p, err := n.Pod("p")
			if err != nil {
				t.Fatal(err)
			}
			restarts = 0
			for _, c := range p.Status.ContainerStatuses {
				restarts += int(c.RestartCount)
			}
			n.Await("another restart", func() error {
				p, err := n.Pod("p")
				now := 0
				for _, c := range p.Status.ContainerStatuses {
					now += int(c.RestartCount)
				}
				if now <= restarts {
					return fmt.Errorf("%d restarts: %v", now, err)
				}
				return nil
			})
		}
		// Garbage collection runs every 2 s; meanwhile a container terminates once or twice. On a
		// busy machine a removal is late.
		n.Await("only the last instances are left", func() error {
			list, err := n.Runtime.CRI.Containers(t.Context(), "io.kubernetes.pod.name", n.PodName("p"))
			if err != nil {
				return err
			}
			logs, bytes := countFiles(t, n.PodLogs)
			links, _ := countFiles(t, n.ContainerLogs)
			if most := 4 * containers; len(list) > most || logs > most || links > most || bytes > int64(most*(printed+5000)) {
				return fmt.Errorf("after %d restarts there are %d containers, %d logs with %d bytes, %d links", restarts, len(list),
					logs, bytes, links)
			}
			return nil
		})
		if sandboxes, err := n.Sandboxes("p"); err != nil || len(sandboxes) != 1 {
			t.Errorf("%d sandboxes: %v", len(sandboxes), err)
		}
		// There is no previous log while the newest instance has just terminated and waits for
		// nothing yet.
		n.Await("the log of the previous instance", func() error {
			out, errs, status := n.Podstead("logs", "-p", "-c", "c0", "p", "--api-socket", n.Socket())
			if status != 0 || !strings.HasPrefix(out, "begin\nxxx") {
				return fmt.Errorf("logs -p exited with %d: %.40s%s", status, out, errs)
			}
			return nil
		})
		// A daemon that is killed in the middle of a start can leave a container that the
		// runtime cannot remove, so the crash loop ends before the daemon does.
		n.RemoveManifest("p.yaml")
		n.AwaitGone("p")
	})
}
