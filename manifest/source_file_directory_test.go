package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFileSourceDirectoryCreatedLater(t *testing.T) {
	b := newFileHarness(t)
	b.directory = filepath.Join(b.root, "x", "y", "pods")
	b.start()
	set := b.sink.awaitFault(b.directory + ": does not exist; create it")
	if !set.Restored {
		t.Error("a directory that is not there counts as delivered")
	}
	b.wantLog()
	b.must(os.MkdirAll(b.directory, 0o755))
	b.write("a.yaml", "a 1")
	b.sink.awaitPods("a=1")
	b.wantPods(1)
}

// wantPods allows for an empty first set: the directory can be seen before the
// file in it.
func (b *fileHarness) wantPods(pods int) {
	b.t.Helper()
	log := strings.Join(b.sink.model.log, "; ")
	if strings.Count(log, "=") != pods || strings.Contains(log, "REMOVE") {
		b.t.Fatalf("updates are %s", log)
	}
}

func TestFileSourceDirectoryDisappearsAndReturns(t *testing.T) {
	b := newFileHarness(t)
	b.write("a.yaml", "a 1")
	b.write("b.yaml", "b 1")
	b.start()
	b.sink.awaitPods("a=1", "b=1")
	b.must(os.Rename(b.directory, b.directory+"-aside"))
	set := b.sink.awaitFault("does not exist")
	if set.Restored || len(set.Units) != 2 {
		t.Errorf("set is %+v", set)
	}
	b.must(os.WriteFile(b.directory+"-aside/a.yaml", []byte("a 2"), 0o644))
	b.must(os.Rename(b.directory+"-aside", b.directory))
	b.sink.awaitPods("a=2", "b=1")
	// It is watched at its new place.
	b.write("b.yaml", "b 2")
	b.sink.awaitPods("a=2", "b=2")
	b.must(os.RemoveAll(b.directory))
	b.sink.awaitFault("does not exist")
	b.start()
	set = b.sink.awaitPods("a=2", "b=2")
	if !set.Restored || set.Fault == nil {
		t.Errorf("set is %+v", set)
	}
	b.wantLog("RESTORE file a=2 b=2")
	// An unmounted directory leaves an empty one in its place.
	b.must(os.Mkdir(b.directory, 0o755))
	set = b.sink.awaitFault("was replaced by a directory without manifests")
	if !set.Restored {
		t.Errorf("set is %+v", set)
	}
	b.start()
	b.sink.awaitFault("was replaced")
	b.wantLog("RESTORE file a=2 b=2")
	// The remedy of the fault.
	b.write("none.yaml", "empty")
	b.sink.awaitPods()
	b.sink.await("a whole set", func(set Set) bool { return !set.Restored && len(set.Units) == 1 })
}

// Removing every file from the same directory stops every pod.
func TestFileSourceEmptiedDirectory(t *testing.T) {
	b := newFileHarness(t)
	b.write("a.yaml", "a 1")
	b.start()
	b.sink.awaitPods("a=1")
	b.stop()
	b.must(os.Remove(b.path("a.yaml")))
	b.start()
	b.sink.await("a whole set", func(set Set) bool { return !set.Restored })
	b.wantLog("ADD file")
}

func TestFileSourceDirectorySwap(t *testing.T) {
	b := newFileHarness(t)
	b.write("a.yaml", "a 1")
	b.write("b.yaml", "b 1")
	b.start()
	b.sink.awaitPods("a=1", "b=1")
	next := filepath.Join(b.root, "next")
	b.must(os.Mkdir(next, 0o755))
	b.must(os.WriteFile(filepath.Join(next, "b.yaml"), []byte("b 2"), 0o644))
	b.must(os.WriteFile(filepath.Join(next, "c.yaml"), []byte("c 1"), 0o644))
	b.must(os.Rename(b.directory, b.directory+"-old"))
	b.must(os.Rename(next, b.directory))
	b.sink.awaitPods("b=2", "c=1")
}

// A directory behind symbolic links, each of which can be changed.
func TestFileSourceLinkedDirectory(t *testing.T) {
	b := newFileHarness(t)
	for _, version := range []string{"1", "2"} {
		directory := filepath.Join(b.root, "v"+version, "sub")
		b.must(os.MkdirAll(directory, 0o755))
		b.must(os.WriteFile(filepath.Join(directory, "a.yaml"), []byte("a "+version), 0o644))
	}
	b.must(os.Symlink("v1", filepath.Join(b.root, "current")))
	b.must(os.Remove(b.directory))
	b.must(os.Symlink(filepath.Join(b.root, "current", "sub"), b.directory))
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
	b := newFileHarness(t)
	publish := func(version string, files map[string]string) {
		directory := b.path(".." + version)
		b.must(os.Mkdir(directory, 0o755))
		for name, script := range files {
			b.must(os.WriteFile(filepath.Join(directory, name), []byte(script), 0o644))
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

// The target of a link is watched too.
func TestFileSourceLinkedFile(t *testing.T) {
	b := newFileHarness(t)
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
	b := newFileHarness(t)
	directory := b.directory
	b.directory = filepath.Join(directory, "one.yaml")
	write := func(script string) { b.must(os.WriteFile(b.directory, []byte(script), 0o644)) }
	b.start()
	set := b.sink.awaitFault("does not exist")
	if set.Restored {
		t.Error("its directory can be read and does not hold it: that is a whole set")
	}
	b.must(os.WriteFile(filepath.Join(directory, "other.yaml"), []byte("b 1"), 0o644))
	write("a 1")
	b.sink.awaitPods("a=1")
	write("broken")
	b.sink.awaitFault("is broken")
	b.start()
	b.sink.awaitPods("a=1")
	write("a 2")
	b.sink.awaitPods("a=2")
	b.must(os.Rename(directory, directory+"-aside"))
	b.sink.awaitFault("does not exist")
	b.start()
	b.sink.awaitPods("a=2")
	b.must(os.Rename(directory+"-aside", directory))
	b.sink.await("a whole set", func(set Set) bool { return !set.Restored && set.Fault == nil })
	b.must(os.Remove(b.directory))
	b.sink.awaitPods()
	b.wantLog("RESTORE file a=2", "ADD file", "REMOVE file a=2")
}
