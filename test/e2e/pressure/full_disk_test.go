package pressure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
)

// smallRoot mounts a small file system at the node's root directory.
func smallRoot(n *harness.Node, options string) {
	n.T.Helper()
	if err := os.MkdirAll(n.Root, 0o755); err != nil {
		n.T.Fatal(err)
	}
	if err := unix.Mount("tmpfs", n.Root, "tmpfs", 0, options); err != nil {
		n.T.Fatal(err)
	}
	n.T.Cleanup(func() { _ = unix.Unmount(n.Root, unix.MNT_DETACH) })
}

// writeUntilFull calls write until the file system has no space or inode left.
func writeUntilFull(n *harness.Node, write func(i int) error) {
	n.T.Helper()
	for i := 0; ; i++ {
		err := write(i)
		if errors.Is(err, unix.ENOSPC) {
			return
		}
		if err != nil {
			n.T.Fatal(err)
		}
	}
}

// unwritableDisk is a root directory that cannot be written to.
type unwritableDisk struct {
	name    string
	options string
	fault   unix.Errno
	breakIt func(n *harness.Node)
	repair  func(n *harness.Node)
}

var unwritableDisks = []unwritableDisk{
	{
		name: "full", options: "size=4m", fault: unix.ENOSPC,
		breakIt: func(n *harness.Node) {
			f, err := os.OpenFile(filepath.Join(n.Root, "ballast"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				n.T.Fatal(err)
			}
			defer f.Close()
			block := make([]byte, 4096)
			writeUntilFull(n, func(int) error { _, err := f.Write(block); return err })
		},
		repair: func(n *harness.Node) { removeFiles(n, "ballast") },
	},
	{
		name: "no-inodes", options: "size=4m,nr_inodes=100", fault: unix.ENOSPC,
		breakIt: func(n *harness.Node) {
			writeUntilFull(n, func(i int) error {
				return os.WriteFile(filepath.Join(n.Root, fmt.Sprintf("ballast%d", i)), nil, 0o600)
			})
		},
		repair: func(n *harness.Node) { removeFiles(n, "ballast*") },
	},
	{
		name: "read-only", options: "size=4m", fault: unix.EROFS,
		breakIt: func(n *harness.Node) {
			// It is busy while the daemon writes.
			n.Await("the disk is read-only",
				func() error { return unix.Mount("", n.Root, "", unix.MS_REMOUNT|unix.MS_RDONLY, "") })
		},
		repair: func(n *harness.Node) {
			if err := unix.Mount("", n.Root, "", unix.MS_REMOUNT, ""); err != nil {
				n.T.Fatal(err)
			}
		},
	},
}

func removeFiles(n *harness.Node, pattern string) {
	n.T.Helper()
	files, _ := filepath.Glob(filepath.Join(n.Root, pattern))
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			n.T.Fatal(err)
		}
	}
}

// webVolumes follows a pod: volumes that are checked with each sync.
const webVolumes = `      volumeMounts: [{name: cache, mountPath: /cache}, {name: settings, mountPath: /settings}]
  volumes: [{name: cache, emptyDir: {}}, {name: settings, configMap: {name: settings}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: green}
`

// A daemon whose root directory is full, has no inode left or is read-only starts, with the
// same containers, reports it, and recovers without a restart.
func TestUnwritableRootDirectory(t *testing.T) {
	t.Parallel()
	for _, disk := range unwritableDisks {
		t.Run(disk.name, func(t *testing.T) {
			harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
				smallRoot(n, disk.options)
				n.Args = []string{"--eviction-hard", ""}
				n.WriteManifest("web.yaml", harness.SleepPod("web", "one")+webVolumes)
				n.WriteManifest("edited.yaml", harness.SleepPod("edited", "one"))
				n.MustStart()
				n.AwaitReady("web")
				n.AwaitReady("edited")
				web, edited := n.AwaitRunning("web"), n.AwaitRunning("edited")

				disk.breakIt(n)
				n.Restart()
				n.AwaitReady("web")
				n.MustStillRun("web", web)
				n.MustStillRun("edited", edited)
				n.AwaitStatusLine(1, "Storage:", disk.fault.Error(), "2 ready")
				awaitCondition(n, "podstead.io/RootDirNotWritable", v1.ConditionTrue)
				n.Await("an event reports it", func() error {
					all, err := n.Events("")
					if e := all["RootDirNotWritable"]; err != nil || e.Type != v1.EventTypeWarning ||
						!strings.Contains(e.Message, disk.fault.Error()) {
						return fmt.Errorf("%+v, %v", e, err)
					}
					return nil
				})
				n.Await("the metric counts the files", func() error {
					if got := n.Series("/metrics").Value(t, "podstead_unwritten_files"); got < 1 {
						return fmt.Errorf("podstead_unwritten_files is %v", got)
					}
					return nil
				})

				// Manifests still take effect, as far as the disk allows.
				n.WriteManifest("late.yaml", harness.SleepPod("late", "one"))
				n.RemoveManifest("edited.yaml")
				n.AwaitGone("edited")
				n.AwaitStatus("late", "waits or runs", func(v1.Pod) error { return nil })
				// The removed pod has left space, with which the files may have been written.
				disk.breakIt(n)
				n.WriteManifest("late.yaml", harness.SleepPod("late", "two"))
				n.AwaitStatusLine(1, "checkpoint/manifests.json")
				if err := n.Stop(); err != nil {
					t.Error(err)
				}
				n.MustStart()
				n.AwaitReady("web")
				n.MustStillRun("web", web)

				disk.repair(n)
				n.AwaitReady("late")
				awaitCondition(n, "podstead.io/RootDirNotWritable", v1.ConditionFalse)
				n.AwaitStatusLine(0, "2 ready")
				n.Await("the metric is 0", func() error {
					if got := n.Series("/metrics").Value(t, "podstead_unwritten_files"); got != 0 {
						return fmt.Errorf("podstead_unwritten_files is %v", got)
					}
					return nil
				})
				n.Restart()
				n.AwaitReady("late")
				n.MustStillRun("web", web)
			})
		})
	}
}
