package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFileSourceFolderComesLater(t *testing.T) {
	b := newFileBed(t)
	b.folder = filepath.Join(b.root, "x", "y", "pods")
	b.start()
	set := b.sink.awaitFault(b.folder + ": does not exist; create it")
	if !set.Restored {
		t.Error("a folder that is not there counts as delivered")
	}
	b.wantLog()
	b.must(os.MkdirAll(b.folder, 0o755))
	b.write("a.yaml", "a 1")
	b.sink.awaitPods("a=1")
	b.wantPods(1)
}

// wantPods allows for an empty first set: the folder can be seen before the
// file in it.
func (b *fileBed) wantPods(pods int) {
	b.t.Helper()
	log := strings.Join(b.sink.model.log, "; ")
	if strings.Count(log, "=") != pods || strings.Contains(log, "REMOVE") {
		b.t.Fatalf("updates are %s", log)
	}
}

func TestFileSourceFolderGoesAndComesBack(t *testing.T) {
	b := newFileBed(t)
	b.write("a.yaml", "a 1")
	b.write("b.yaml", "b 1")
	b.start()
	b.sink.awaitPods("a=1", "b=1")
	b.must(os.Rename(b.folder, b.folder+"-aside"))
	set := b.sink.awaitFault("does not exist")
	if set.Restored || len(set.Units) != 2 {
		t.Errorf("set is %+v", set)
	}
	b.must(os.WriteFile(b.folder+"-aside/a.yaml", []byte("a 2"), 0o644))
	b.must(os.Rename(b.folder+"-aside", b.folder))
	b.sink.awaitPods("a=2", "b=1")
	// It is watched where it is now.
	b.write("b.yaml", "b 2")
	b.sink.awaitPods("a=2", "b=2")
	b.must(os.RemoveAll(b.folder))
	b.sink.awaitFault("does not exist")
	b.start()
	set = b.sink.awaitPods("a=2", "b=2")
	if !set.Restored || set.Fault == nil {
		t.Errorf("set is %+v", set)
	}
	b.wantLog("RESTORE file a=2 b=2")
	// An empty folder in its place is what an unmounted one leaves.
	b.must(os.Mkdir(b.folder, 0o755))
	set = b.sink.awaitFault("was replaced by a directory without manifests")
	if !set.Restored {
		t.Errorf("set is %+v", set)
	}
	b.start()
	b.sink.awaitFault("was replaced")
	b.wantLog("RESTORE file a=2 b=2")
	// The way out that the fault names.
	b.write("none.yaml", "empty")
	b.sink.awaitPods()
	b.sink.await("a whole set", func(set Set) bool { return !set.Restored && len(set.Units) == 1 })
}

// Every file removed from the folder that it was in ends every pod.
func TestFileSourceEmptiedFolder(t *testing.T) {
	b := newFileBed(t)
	b.write("a.yaml", "a 1")
	b.start()
	b.sink.awaitPods("a=1")
	b.stop()
	b.must(os.Remove(b.path("a.yaml")))
	b.start()
	b.sink.await("a whole set", func(set Set) bool { return !set.Restored })
	b.wantLog("ADD file")
}

func TestFileSourceFolderSwap(t *testing.T) {
	b := newFileBed(t)
	b.write("a.yaml", "a 1")
	b.write("b.yaml", "b 1")
	b.start()
	b.sink.awaitPods("a=1", "b=1")
	next := filepath.Join(b.root, "next")
	b.must(os.Mkdir(next, 0o755))
	b.must(os.WriteFile(filepath.Join(next, "b.yaml"), []byte("b 2"), 0o644))
	b.must(os.WriteFile(filepath.Join(next, "c.yaml"), []byte("c 1"), 0o644))
	b.must(os.Rename(b.folder, b.folder+"-old"))
	b.must(os.Rename(next, b.folder))
	b.sink.awaitPods("b=2", "c=1")
}

// A folder behind links, each of which can be turned elsewhere.
func TestFileSourceLinkedFolder(t *testing.T) {
	b := newFileBed(t)
	for _, version := range []string{"1", "2"} {
		folder := filepath.Join(b.root, "v"+version, "sub")
		b.must(os.MkdirAll(folder, 0o755))
		b.must(os.WriteFile(filepath.Join(folder, "a.yaml"), []byte("a "+version), 0o644))
	}
	b.must(os.Symlink("v1", filepath.Join(b.root, "current")))
	b.must(os.Remove(b.folder))
	b.must(os.Symlink(filepath.Join(b.root, "current", "sub"), b.folder))
	b.start()
	b.sink.awaitPods("a=1")
	b.must(os.Symlink("v2", filepath.Join(b.root, "next")))
	b.must(os.Rename(filepath.Join(b.root, "next"), filepath.Join(b.root, "current")))
	b.sink.awaitPods("a=2")
	b.must(os.WriteFile(filepath.Join(b.root, "v2/sub/a.yaml"), []byte("a 3"), 0o644))
	b.sink.awaitPods("a=3")
}

// A ConfigMap volume: files are links through ..data, which is swapped.
func TestFileSourceConfigMapVolume(t *testing.T) {
	b := newFileBed(t)
	publish := func(version string, files map[string]string) {
		folder := b.path(".." + version)
		b.must(os.Mkdir(folder, 0o755))
		for name, script := range files {
			b.must(os.WriteFile(filepath.Join(folder, name), []byte(script), 0o644))
		}
		b.must(os.Symlink(".."+version, b.path("..data_tmp")))
		b.must(os.Rename(b.path("..data_tmp"), b.path("..data")))
	}
	publish("1", map[string]string{"a.yaml": "a 1", "b.yaml": "b 1"})
	b.must(os.Symlink("..data/a.yaml", b.path("a.yaml")))
	b.must(os.Symlink("..data/b.yaml", b.path("b.yaml")))
	b.start()
	b.sink.awaitPods("a=1", "b=1")
	publish("2", map[string]string{"a.yaml": "a 2", "b.yaml": "b 1"})
	b.must(os.RemoveAll(b.path("..1")))
	b.sink.awaitPods("a=2", "b=1")
	publish("3", map[string]string{"a.yaml": "a 3"})
	b.must(os.Remove(b.path("b.yaml")))
	b.sink.awaitPods("a=3")
	b.wantLog("ADD file a=1 b=1", "REMOVE file a=1", "ADD file a=2", "REMOVE file a=2", "ADD file a=3", "REMOVE file b=1")
}

// What a link leads to is watched too.
func TestFileSourceLinkedFile(t *testing.T) {
	b := newFileBed(t)
	target := filepath.Join(b.root, "elsewhere", "web")
	b.must(os.Mkdir(filepath.Dir(target), 0o755))
	b.must(os.WriteFile(target, []byte("a 1"), 0o644))
	b.must(os.Symlink("../elsewhere/web", b.path("a.yaml")))
	b.start()
	b.sink.awaitPods("a=1")
	b.must(os.WriteFile(target, []byte("a 2"), 0o644))
	b.sink.awaitPods("a=2")
}

func TestFileSourceSingleFile(t *testing.T) {
	b := newFileBed(t)
	folder := b.folder
	b.folder = filepath.Join(folder, "one.yaml")
	write := func(script string) { b.must(os.WriteFile(b.folder, []byte(script), 0o644)) }
	b.start()
	set := b.sink.awaitFault("does not exist")
	if set.Restored {
		t.Error("its folder can be read and does not hold it: that is a whole set")
	}
	b.must(os.WriteFile(filepath.Join(folder, "other.yaml"), []byte("b 1"), 0o644))
	write("a 1")
	b.sink.awaitPods("a=1")
	write("broken")
	b.sink.awaitFault("is broken")
	b.start()
	b.sink.awaitPods("a=1")
	write("a 2")
	b.sink.awaitPods("a=2")
	b.must(os.Rename(folder, folder+"-aside"))
	b.sink.awaitFault("does not exist")
	b.start()
	b.sink.awaitPods("a=2")
	b.must(os.Rename(folder+"-aside", folder))
	b.sink.await("a whole set", func(set Set) bool { return !set.Restored && set.Fault == nil })
	b.must(os.Remove(b.folder))
	b.sink.awaitPods()
	b.wantLog("RESTORE file a=2", "ADD file", "REMOVE file a=2")
}
