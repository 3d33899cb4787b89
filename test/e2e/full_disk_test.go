package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"golang.org/x/sys/unix"
)

// smallRoot mounts a small file system at the node's root directory.
func (n *node) smallRoot(options string) {
	n.t.Helper()
	if err := os.MkdirAll(n.Root, 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", n.Root, "tmpfs", 0, options); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = unix.Unmount(n.Root, unix.MNT_DETACH) })
}

// writeUntilFull calls write until the file system has no space or inode left.
func (n *node) writeUntilFull(write func(i int) error) {
	n.t.Helper()
	for i := 0; ; i++ {
		err := write(i)
		if errors.Is(err, unix.ENOSPC) {
			return
		}
		if err != nil {
			n.t.Fatal(err)
		}
	}
}

// unwritableDisk is a root directory that cannot be written to.
type unwritableDisk struct {
	name    string
	options string
	fault   unix.Errno
	breakIt func(n *node)
	repair  func(n *node)
}

var unwritableDisks = []unwritableDisk{
	{
		name: "full", options: "size=4m", fault: unix.ENOSPC,
		breakIt: func(n *node) {
			f, err := os.OpenFile(filepath.Join(n.Root, "ballast"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				n.t.Fatal(err)
			}
			defer f.Close()
			block := make([]byte, 4096)
			n.writeUntilFull(func(int) error { _, err := f.Write(block); return err })
		},
		repair: func(n *node) { n.removeFiles("ballast") },
	},
	{
		name: "no-inodes", options: "size=4m,nr_inodes=100", fault: unix.ENOSPC,
		breakIt: func(n *node) {
			n.writeUntilFull(func(i int) error {
				return os.WriteFile(filepath.Join(n.Root, fmt.Sprintf("ballast%d", i)), nil, 0o600)
			})
		},
		repair: func(n *node) { n.removeFiles("ballast*") },
	},
	{
		name: "read-only", options: "size=4m", fault: unix.EROFS,
		breakIt: func(n *node) {
			// It is busy while the daemon writes.
			n.await("the disk is read-only", func() error { return unix.Mount("", n.Root, "", unix.MS_REMOUNT|unix.MS_RDONLY, "") })
		},
		repair: func(n *node) {
			if err := unix.Mount("", n.Root, "", unix.MS_REMOUNT, ""); err != nil {
				n.t.Fatal(err)
			}
		},
	},
}

func (n *node) removeFiles(pattern string) {
	n.t.Helper()
	files, _ := filepath.Glob(filepath.Join(n.Root, pattern))
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			n.t.Fatal(err)
		}
	}
}

// awaitStatusLine waits until podstead status prints the words and exits with the code.
func (n *node) awaitStatusLine(code int, words ...string) {
	n.t.Helper()
	n.await(fmt.Sprintf("podstead status exits with %d and contains %q", code, words), func() error {
		out, errs, got := n.podstead("status", "--api-socket", n.Socket())
		for _, w := range words {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), w) {
				return fmt.Errorf("no %q in %s%s", w, out, errs)
			}
		}
		if got != code {
			return fmt.Errorf("exit code %d:\n%s%s", got, out, errs)
		}
		return nil
	})
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
			onEachRuntime(t, func(t *testing.T, n *node) {
				n.smallRoot(disk.options)
				n.Args = []string{"--eviction-hard", ""}
				n.writeManifest("web.yaml", sleepPod("web", "one")+webVolumes)
				n.writeManifest("edited.yaml", sleepPod("edited", "one"))
				n.start()
				n.awaitReady("web")
				n.awaitReady("edited")
				web, edited := n.awaitRunning("web"), n.awaitRunning("edited")

				disk.breakIt(n)
				n.restart()
				n.awaitReady("web")
				n.mustStillRun("web", web)
				n.mustStillRun("edited", edited)
				n.awaitStatusLine(1, "Storage:", disk.fault.Error(), "2 ready")
				n.awaitCondition("podstead.io/RootDirNotWritable", v1.ConditionTrue)
				n.await("an event reports it", func() error {
					all, err := n.events("")
					if e := all["RootDirNotWritable"]; err != nil || e.Type != v1.EventTypeWarning || !strings.Contains(e.Message, disk.fault.Error()) {
						return fmt.Errorf("%+v, %v", e, err)
					}
					return nil
				})
				n.await("the metric counts the files", func() error {
					if got := n.series("/metrics").value(t, "podstead_unwritten_files"); got < 1 {
						return fmt.Errorf("podstead_unwritten_files is %v", got)
					}
					return nil
				})

				// Manifests still take effect, as far as the disk allows.
				n.writeManifest("late.yaml", sleepPod("late", "one"))
				n.removeManifest("edited.yaml")
				n.awaitGone("edited")
				n.awaitStatus("late", "waits or runs", func(v1.Pod) error { return nil })
				// The removed pod has left space, with which the files may have been written.
				disk.breakIt(n)
				n.writeManifest("late.yaml", sleepPod("late", "two"))
				n.awaitStatusLine(1, "checkpoint/manifests.json")
				if err := n.Stop(); err != nil {
					t.Error(err)
				}
				n.start()
				n.awaitReady("web")
				n.mustStillRun("web", web)

				disk.repair(n)
				n.awaitReady("late")
				n.awaitCondition("podstead.io/RootDirNotWritable", v1.ConditionFalse)
				n.awaitStatusLine(0, "2 ready")
				n.await("the metric is 0", func() error {
					if got := n.series("/metrics").value(t, "podstead_unwritten_files"); got != 0 {
						return fmt.Errorf("podstead_unwritten_files is %v", got)
					}
					return nil
				})
				n.restart()
				n.awaitReady("late")
				n.mustStillRun("web", web)
			})
		})
	}
}
