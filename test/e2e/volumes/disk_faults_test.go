package volumes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

// diskClass is the class of the directories on a disk.
const diskClass = `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disk}
provisioner: podstead.io/directory
parameters: {path: %[1]s, mountPoint: %[1]s}
reclaimPolicy: Delete
`

// freeze makes every change of a file system wait, as on a disk that hangs, until thaw is called.
func freeze(t *testing.T, directory string) (thaw func()) {
	t.Helper()
	run := func(option string) error {
		if out, err := exec.Command("fsfreeze", option, directory).CombinedOutput(); err != nil {
			return fmt.Errorf("fsfreeze %s: %w: %s", option, err, out)
		}
		return nil
	}
	if err := run("--freeze"); err != nil {
		t.Fatal(err)
	}
	thaw = sync.OnceFunc(func() {
		if err := run("--unfreeze"); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(thaw)
	return thaw
}

// makeFiles makes empty files in a directory, 1000 in each subdirectory.
func makeFiles(t *testing.T, directory string, count int) {
	t.Helper()
	for i := range count {
		dir := filepath.Join(directory, fmt.Sprint(i/1000))
		if i%1000 == 0 {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
}

// A disk that hangs while a claim with many files on it is deleted, and while a pod is to get a directory on it, holds
// up no pod whose claims are elsewhere, and no command. When it responds again, so does what waited for it.
func TestDiskThatHangs(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		const files = 100_000
		disk := filepath.Join(n.Dir(), "disk")
		harness.MountDisk(t, disk, 511<<20) // a larger one has an inode for 16 KiB, not for 4
		n.WriteManifest("class.yaml", fmt.Sprintf(diskClass, disk))
		n.WriteManifest("many.yaml", harness.ClaimPod("many", "many")+
			harness.StorageClaim("many", "1Gi", "storageClassName: disk"))
		n.WriteManifest("before.yaml", harness.ClaimPod("before", "before")+harness.StorageClaim("before", "1Gi", ""))
		n.MustStart()
		n.AwaitRunning("many")
		before, directory := n.AwaitRunning("before"), filepath.Join(disk, "apps/many")
		makeFiles(t, directory, files)
		shown := n.AwaitReady("many")
		n.RemoveManifest("many.yaml")
		n.AwaitPodDirGone(shown)

		thaw := freeze(t, disk)
		var printed bytes.Buffer
		remove := n.Command("volumes", "rm", "apps/many", "--api-socket", n.Socket())
		remove.Stdout, remove.Stderr = &printed, &printed
		if err := remove.Start(); err != nil {
			t.Fatal(err)
		}
		n.Await("the claim is being deleted", func() error {
			bindings, err := os.ReadFile(filepath.Join(n.Root, "volume-bindings.json"))
			if err == nil && !bytes.Contains(bytes.ReplaceAll(bindings, []byte(" "), nil), []byte(`"deleting":true`)) {
				err = errors.New(string(bindings))
			}
			if err != nil {
				return err
			}
			return nil
		})
		n.WriteManifest("hangs.yaml", harness.ClaimPod("hangs", "hangs")+
			harness.StorageClaim("hangs", "1Gi", "storageClassName: disk"))
		n.Await("the pod on the disk has begun", func() error { _, err := n.Pod("hangs"); return err })
		n.WriteManifest("after.yaml", harness.ClaimPod("after", "after")+harness.StorageClaim("after", "1Gi", ""))
		n.AwaitRunning("after")
		n.CLI(0, []string{"apps/after", "apps/before", "many"}, "volumes")
		harness.WriteAll(t, filepath.Join(n.Root, "volumes/apps/spare"), map[string]string{"file": "x"})
		n.CLI(0, []string{"volume apps/spare deleted"}, "volumes", "rm", "apps/spare")
		if running, err := n.Running("hangs"); err != nil || len(running) != 0 {
			t.Errorf("a pod runs on a disk that hangs: %v, %v", running, err)
		}
		if left, err := os.ReadDir(directory); err != nil || len(left) != files/1000 {
			t.Errorf("%d directories are left, %v", len(left), err)
		}

		thaw()
		n.AwaitRunning("hangs")
		if err := remove.Wait(); err != nil {
			t.Errorf("%v: %s", err, printed.String())
		}
		if _, err := os.Lstat(directory); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the claim has a directory: %v", err)
		}
		n.MustStillRun("before", before)
	})
}

// A removable disk may come back with links that another machine has made. Nothing is made, changed or deleted where
// they lead.
func TestLinksBelowAClass(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		disk, outside := filepath.Join(n.Dir(), "disk"), filepath.Join(n.Dir(), "outside")
		if err := os.MkdirAll(disk, 0o755); err != nil {
			t.Fatal(err)
		}
		mount(t, "tmpfs", disk)
		kept := map[string]string{"file": "kept\n", "db/file": "kept\n"}
		harness.WriteAll(t, outside, map[string]string{"file": kept["file"]})
		harness.WriteAll(t, filepath.Join(outside, "db"), map[string]string{"file": kept["db/file"]})
		unchanged := func() {
			t.Helper()
			for name, text := range kept {
				n.MustHaveFile(filepath.Join(outside, name), text)
			}
			found, err := filepath.Glob(filepath.Join(outside, "*"))
			if st, statErr := os.Stat(outside); err != nil || len(found) != 2 || statErr != nil || st.Mode().Perm() != 0o755 {
				t.Errorf("where the link leads is %v, %v (%v)", found, st, errors.Join(err, statErr))
			}
		}
		link := func(path string) {
			t.Helper()
			if err := os.Symlink(outside, path); err != nil {
				t.Fatal(err)
			}
		}
		namespace := filepath.Join(disk, "apps")
		link(namespace)
		n.WriteManifest("class.yaml", fmt.Sprintf(diskClass, disk))
		n.WriteManifest("db.yaml", harness.ClaimPod("db", "db")+
			harness.StorageClaim("db", "1Gi", "storageClassName: disk"))
		n.MustStart()
		n.AwaitWaiting("db", "FailedMount", namespace+" is no directory", "no symbolic links are followed")
		unchanged()
		if err := os.Remove(namespace); err != nil {
			t.Fatal(err)
		}
		db := n.AwaitRunning("db")
		n.MustContain(db, map[string]string{"echo own > /db/file; cat /db/file": "own"})

		// The disk comes back with a link in place of the directories that are in use.
		shown := n.AwaitReady("db")
		n.RemoveManifest("db.yaml")
		n.AwaitPodDirGone(shown)
		if err := os.Rename(namespace, namespace+".other"); err != nil {
			t.Fatal(err)
		}
		link(namespace)
		n.WriteManifest("db.yaml", harness.ClaimPod("db", "db")+
			harness.StorageClaim("db", "1Gi", "storageClassName: disk"))
		n.AwaitWaiting("db", "FailedMount", namespace+" is no directory")
		n.RemoveManifest("db.yaml")
		n.AwaitGone("db")
		n.Await("the volume of the claim cannot be deleted", func() error {
			_, errs, status := n.Podstead("volumes", "rm", "apps/db", "--api-socket", n.Socket())
			if status != 1 || !strings.Contains(errs, "no symbolic links are followed") {
				return fmt.Errorf("exit code %d: %s", status, errs)
			}
			return nil
		})
		unchanged()
		n.MustHaveFile(filepath.Join(namespace+".other", "db/file"), "own\n")
	})
}
