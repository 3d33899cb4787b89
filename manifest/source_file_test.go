package manifest

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fileHarness is a FileSource over a directory of its own, with real inotify. It
// scans periodically only once an hour, so that changes are found by events.
type fileHarness struct {
	t         *testing.T
	root      string
	directory string
	cp        string
	rescan    time.Duration
	loader    *scriptLoader
	lines     *logLines
	// real replaces the script loader.
	real UnitLoader
	// keys verify signatures; nil needs none.
	keys Verifier

	sink   *sinkDeliverer
	source *FileSource
	stop   func()
}

func newFileHarness(t *testing.T) *fileHarness {
	t.Parallel()
	return makeFileHarness(t)
}

func makeFileHarness(t *testing.T) *fileHarness {
	root := t.TempDir()
	b := &fileHarness{t: t, root: root, directory: filepath.Join(root, "pods"),
		cp: filepath.Join(root, "state", "checkpoint.json"), rescan: time.Hour, loader: newScriptLoader(), lines: &logLines{}}
	if err := os.Mkdir(b.directory, 0o755); err != nil {
		t.Fatal(err)
	}
	return b
}

// start simulates the start of the daemon after the previous one has stopped.
func (b *fileHarness) start() {
	b.t.Helper()
	if b.stop != nil {
		b.stop()
	}
	b.make()
	if b.real != nil {
		b.source.reader.loader = b.real
	}
	b.stop = runInBackground(b.t, b.source.Run)
}

// make is start without running the source.
func (b *fileHarness) make() {
	b.t.Helper()
	cp := openTestCheckpoint(b.t, b.cp)
	b.sink = newSink(b.t, cp, b.lines.log())
	b.source = NewFileSource(FileSourceOptions{Path: b.directory, Node: "node", Rescan: b.rescan, Loader: b.loader,
		Checkpoint: cp, Deliver: b.sink, Log: b.lines.log(), Keys: b.keys})
}

func (b *fileHarness) path(name string) string { return filepath.Join(b.directory, name) }

func (b *fileHarness) write(name, script string) {
	b.t.Helper()
	b.must(os.WriteFile(b.path(name), []byte(script), 0o644))
}

func (b *fileHarness) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// wantLog checks all updates so far.
func (b *fileHarness) wantLog(want ...string) {
	b.t.Helper()
	if got := strings.Join(b.sink.model.log, "; "); got != strings.Join(want, "; ") {
		b.t.Fatalf("updates are %s, want %s", got, strings.Join(want, "; "))
	}
}

func TestFileSourceSeesEdits(t *testing.T) {
	b := newFileHarness(t)
	b.write("a.yaml", "a 1")
	b.start()
	b.sink.awaitPods("a=1")
	b.write("b.json", "b 1")
	b.sink.awaitPods("a=1", "b=1")
	b.write("a.yaml", "a 2")
	b.sink.awaitPods("a=2", "b=1")
	// An atomic rename over it.
	b.write(".a.yaml.tmp", "a 3")
	b.must(os.Rename(b.path(".a.yaml.tmp"), b.path("a.yaml")))
	b.sink.awaitPods("a=3", "b=1")
	b.must(os.Remove(b.path("b.json")))
	b.sink.awaitPods("a=3")
	b.wantLog("ADD file a=1", "ADD file b=1", "REMOVE file a=1", "ADD file a=2", "REMOVE file a=2", "ADD file a=3",
		"REMOVE file b=1")
}

// Each change notifies the source long before the periodic scan. The tests with
// fake time check the delays.
func TestFileSourceReactsImmediately(t *testing.T) {
	b := newFileHarness(t)
	b.start()
	b.sink.awaitPods()
	b.write("a.yaml", "a 1")
	b.sink.awaitPods("a=1")
	began := time.Now()
	b.must(os.Remove(b.path("a.yaml")))
	b.sink.awaitPods()
	if took := time.Since(began); took < confirmDelay {
		t.Errorf("the removal took %v, want a little more than %v", took, confirmDelay)
	}
}

func TestFileSourceReadsOnlyManifests(t *testing.T) {
	b := newFileHarness(t)
	for _, name := range []string{".hidden.yaml", "a.yaml~", ".a.yaml.swp", "a.yaml.bak", "#a.yaml#", ".#a.yaml",
		"a.yaml.swp", "a.txt", "a", "yaml", "..data.yaml"} {
		b.write(name, "x 1")
	}
	b.must(os.Mkdir(b.path("sub"), 0o755))
	b.must(os.WriteFile(b.path("sub/x.yaml"), []byte("x 1"), 0o644))
	b.write("a.yaml", "a 1")
	b.write("b.yml", "b 1")
	b.write("c.json", "c 1")
	b.start()
	b.sink.awaitPods("a=1", "b=1", "c=1")
	b.write("d.yaml", "d 1")
	b.sink.awaitPods("a=1", "b=1", "c=1", "d=1")
	for text, times := range map[string]int{"path=" + b.path("sub"): 1, "path=" + b.path("a.txt"): 1, "hidden": 0,
		"a.yaml": 0} {
		if got := b.lines.with(text); len(got) != times {
			t.Errorf("%s is mentioned %d times, want %d: %q", text, len(got), times, got)
		}
	}
}

// Intermediate states of editors and copies stop nothing.
func TestFileSourceSurvivesEditors(t *testing.T) {
	const pause = settleBound // between the steps; the point is that time passes
	for name, edit := range map[string]func(b *fileHarness){
		"truncate and write": func(b *fileHarness) { b.write("a.yaml", "a 2") },
		"backup by rename": func(b *fileHarness) { // vi
			b.must(os.Rename(b.path("a.yaml"), b.path("a.yaml~")))
			b.write("a.yaml", "a 2")
			b.must(os.Remove(b.path("a.yaml~")))
		},
		"rename over": func(b *fileHarness) { // sed -i
			b.write("sedXYZ", "a 2")
			b.must(os.Rename(b.path("sedXYZ"), b.path("a.yaml")))
		},
		"remove and create": func(b *fileHarness) {
			b.must(os.Remove(b.path("a.yaml")))
			b.write("a.yaml", "a 2")
		},
		"written in steps": func(b *fileHarness) {
			file, err := os.Create(b.path("a.yaml"))
			b.must(err)
			for _, part := range []string{"a", " ", "2", "\n", "b 1\n"} {
				_, err := file.WriteString(part)
				b.must(err)
				time.Sleep(pause)
			}
			b.must(file.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b *fileHarness
			for {
				b = makeFileHarness(t)
				b.write("a.yaml", "a 1")
				b.start()
				b.sink.awaitPods("a=1")
				began := time.Now()
				edit(b)
				took := time.Since(began)
				if took < confirmDelay/2 || name == "written in steps" && took < 5*pause+confirmDelay/2 {
					break
				}
				// The disk of a busy machine stalls for as long as a file may be away.
				t.Logf("the edit took %v, trying again", took)
			}
			b.sink.await("a=2", func(set Set) bool {
				if set.Units[0].Faults.Fatal() {
					t.Errorf("a fault was delivered: %s", setFaults(set))
				}
				return b.sink.model.pods["file-a-2"] != nil
			})
			if b.sink.model.log[1] != "REMOVE file a=1" {
				t.Errorf("updates are %q", b.sink.model.log)
			}
		})
	}
}

// A process that keeps a file open without writing delays it only for a while.
func TestFileSourceReadsFileThatStaysOpen(t *testing.T) {
	b := newFileHarness(t)
	file, err := os.Create(b.path("a.yaml"))
	b.must(err)
	defer file.Close()
	_, err = file.WriteString("a 1")
	b.must(err)
	began := time.Now()
	b.start()
	first := b.sink.await("a first set", func(Set) bool { return true })
	if !first.Restored || len(first.Units) > 0 {
		t.Errorf("the first set is %+v", first)
	}
	b.sink.awaitPods("a=1")
	if took := time.Since(began); took < busyTimeout {
		t.Errorf("it was read after %v", took)
	}
	b.wantLog("ADD file a=1")
}

func TestFileSourceInvalidKeepsLastGood(t *testing.T) {
	b := newFileHarness(t)
	b.write("a.yaml", "a 1\nb 1")
	b.start()
	b.sink.awaitPods("a=1", "b=1")
	for _, c := range []struct{ script, fault string }{
		{"a 2\nbroken", "a.yaml:2: is broken"},
		{"", "contains no manifest"},
		{strings.Repeat("x", MaxUnitSize+1), "is larger than 10 MiB"},
	} {
		b.write("a.yaml", c.script)
		set := b.sink.awaitFault(c.fault)
		if set.Restored || set.Units[0].Restored || len(set.Units[0].Documents) != 2 {
			t.Errorf("%.10q: set is %+v", c.script, set)
		}
	}
	b.write("a.yaml", "a 2\nb 1")
	b.sink.awaitPods("a=2", "b=1")
	b.write("a.yaml", "empty")
	b.sink.awaitPods()
	b.wantLog("ADD file a=1 b=1", "REMOVE file a=1", "ADD file a=2", "REMOVE file a=2 b=1")
}

// Unreadable files are handled like invalid ones. Root ignores file modes.
func TestFileSourceUnreadableKeepsLastGood(t *testing.T) {
	for name, c := range map[string]struct {
		replace func(path string) error
		fault   string
	}{
		"named pipe": {func(path string) error { return syscall.Mkfifo(path, 0o644) },
			"is a named pipe; must be a file"},
		"directory": {func(path string) error { return os.Mkdir(path, 0o755) }, "is a directory"},
		"link to nowhere": {func(path string) error { return os.Symlink("nowhere", path) },
			"is a link to nowhere, which does not exist"},
		"link to itself": {func(path string) error { return os.Symlink("a.yaml", path) },
			"cannot be read: too many levels of symbolic links"},
		"link to a pipe": {func(path string) error { return os.Symlink("pipe", path) }, "is a named pipe"},
		"device":         {func(path string) error { return os.Symlink("/dev/null", path) }, "is a device"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFileHarness(t)
			b.must(syscall.Mkfifo(b.path("pipe"), 0o644))
			b.write("a.yaml", "a 1")
			b.start()
			b.sink.awaitPods("a=1")
			b.must(os.Remove(b.path("a.yaml")))
			b.must(c.replace(b.path("a.yaml")))
			b.sink.awaitFault(c.fault)
			// Also across a restart.
			b.start()
			set := b.sink.awaitFault(c.fault)
			if !set.Units[0].Restored || set.Restored {
				t.Errorf("set is %+v", set)
			}
			b.wantLog("ADD file a=1")
			b.must(os.Remove(b.path("a.yaml")))
			b.sink.awaitPods()
		})
	}
}

// An invalid manifest keeps its pod across a crash of the daemon.
func TestFileSourceInvalidAcrossRestart(t *testing.T) {
	b := newFileHarness(t)
	b.write("a.yaml", "a 1")
	b.write("b.yaml", "b 1")
	b.start()
	b.sink.awaitPods("a=1", "b=1")
	uid := b.sink.model.pods["file-a-1"].UID
	b.write("a.yaml", "broken")
	b.sink.awaitFault("is broken")
	b.start()
	set := b.sink.awaitPods("a=1", "b=1")
	if b.sink.model.pods[uid] == nil || set.Restored || !set.Units[0].Restored || set.Units[1].Restored {
		t.Errorf("set is %+v", set)
	}
	if !strings.Contains(b.sink.config.FaultFor(uid), "is broken") {
		t.Error("its fault is not told")
	}
	b.wantLog("ADD file a=1 b=1")
}

// TestFileSourceWithTheLoader uses real manifests.
func TestFileSourceWithTheLoader(t *testing.T) {
	const head = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n"
	b := newFileHarness(t)
	b.real = NewLoader("node", ModeStrict)
	b.write("a.yaml", head+"spec:\n  containers:\n  - name: c\n    image: web:1\n")
	b.start()
	b.sink.awaitPods("web=web:1")
	for _, script := range []string{
		head + "spec:\n  containers:\n    - image: web:1\n      name: c # the same\n",
		head + "spec:\n  containers:\n  - name: c\n    image: web:1\n    imagePullPolicy: IfNotPresent\n",
	} {
		b.write("a.yaml", script)
		b.sink.await("other bytes", func(set Set) bool { return set.Units[0].Digest == Digest([]byte(script)) })
	}
	b.must(os.Rename(b.path("a.yaml"), b.path("b.yaml")))
	b.sink.await("b.yaml alone", func(set Set) bool {
		return len(set.Units) == 1 &&
			set.Units[0].Name == b.path("b.yaml")
	})
	b.wantLog("ADD file web=web:1")
	uid := slices.Collect(maps.Keys(b.sink.model.pods))[0]
	for _, broken := range []string{"", "# nothing\n", head + "spec:\n  containers:\n  - name: c\n    imag: web:1\n",
		"\x00", "{"} {
		b.stop()
		b.write("b.yaml", broken)
		b.start()
		b.sink.awaitPods("web=web:1")
		if b.sink.model.pods[uid] == nil || b.sink.config.FaultFor(uid) == "" {
			t.Fatalf("%q: pods are %v, faults %v", broken, b.sink.model.pods, b.sink.config.Faults())
		}
	}
	b.write("b.yaml", "apiVersion: v1\nkind: PodList\nitems: []\n")
	b.sink.awaitPods()
}

// What an earlier version accepted is not validated again: not the file as a
// whole, and not a document of an edited file.
func TestFileSourceDoesNotValidateTwice(t *testing.T) {
	b := newFileHarness(t)
	b.write("a.yaml", "a 1\nb 1")
	b.start()
	b.sink.awaitPods("a=1", "b=1")
	a := b.sink.model.pods["file-a-1"]
	b.start()
	b.sink.awaitPods("a=1", "b=1")
	if count := b.loader.count(b.path("a.yaml")); count != 1 {
		t.Errorf("it was loaded %d times", count)
	}
	b.must(os.Rename(b.path("a.yaml"), b.path("z.yaml")))
	b.write("z.yaml", "a 1\nb 2")
	b.sink.awaitPods("a=1", "b=2")
	if !sameDesired(a, b.sink.model.pods["file-a-1"]) {
		t.Error("the pod is not the one that was accepted")
	}
	b.wantLog("ADD file a=1 b=1", "REMOVE file b=1", "ADD file b=2")
}

func TestFileSourceRename(t *testing.T) {
	b := newFileHarness(t)
	b.write("a.yaml", "a 1")
	b.start()
	b.sink.awaitPods("a=1")
	b.must(os.Rename(b.path("a.yaml"), b.path("b.yaml")))
	b.sink.await("b.yaml alone", func(set Set) bool {
		return len(set.Units) == 1 &&
			set.Units[0].Name == b.path("b.yaml")
	})
	// Both exist for a while.
	b.must(os.Link(b.path("b.yaml"), b.path("c.yaml")))
	b.sink.await("c.yaml", func(set Set) bool { return len(set.Units) == 2 })
	b.must(os.Remove(b.path("b.yaml")))
	b.sink.await("c.yaml alone", func(set Set) bool {
		return len(set.Units) == 1 &&
			set.Units[0].Name == b.path("c.yaml")
	})
	b.wantLog("ADD file a=1")
	if len(b.sink.config.Faults()) > 0 {
		t.Errorf("faults are %v", b.sink.config.Faults())
	}
}

// Removed while the daemon was down: its pods are neither started nor stopped
// until a second scan confirms the removal.
func TestFileSourceRemovedWhileDown(t *testing.T) {
	b := newFileHarness(t)
	b.write("a.yaml", "a 1")
	b.write("b.yaml", "b 1")
	b.start()
	b.sink.awaitPods("a=1", "b=1")
	b.stop()
	b.must(os.Remove(b.path("a.yaml")))
	b.start()
	set := b.sink.awaitPods("b=1")
	if !set.Restored {
		t.Errorf("set is %+v", set)
	}
	b.sink.await("a whole set", func(set Set) bool { return !set.Restored })
	b.wantLog("RESTORE file b=1", "ADD file")
}

// With a lost checkpoint and an invalid manifest only the runtime knows the
// running pods, which must not be treated as orphans.
func TestFileSourceLostCheckpoint(t *testing.T) {
	b := newFileHarness(t)
	b.write("a.yaml", "broken")
	b.write("b.yaml", "b 1")
	b.must(os.Mkdir(filepath.Dir(b.cp), 0o700))
	b.must(os.WriteFile(b.cp, []byte("garbage"), 0o600))
	b.start()
	b.sink.awaitPods("b=1")
	b.wantLog("RESTORE file b=1")
	if got := b.sink.config.Snapshot()[0].Incomplete; !slices.Equal(got, []string{b.path("a.yaml")}) {
		t.Errorf("the source is incomplete because of %q", got)
	}
	b.write("c.yaml", "c 1")
	b.sink.awaitPods("b=1", "c=1")
	text := "cleanup is suspended until it is valid"
	if lines := b.lines.with(text); len(lines) != 1 || !strings.Contains(lines[0], b.path("a.yaml")) {
		t.Errorf("logged %q", lines)
	}
	b.write("a.yaml", "a 1")
	b.sink.awaitPods("a=1", "b=1", "c=1")
	b.wantLog("RESTORE file b=1", "RESTORE file c=1", "ADD file a=1")
	if got := b.sink.config.Snapshot()[0].Incomplete; len(got) > 0 {
		t.Errorf("the source is still incomplete because of %q", got)
	}
}

// A pod of another node name is validated again, and kept while that fails.
func TestFileSourceRenamedNode(t *testing.T) {
	b := newFileHarness(t)
	b.write("a.yaml", "a 1")
	b.start()
	b.sink.awaitPods("a=1")
	b.make()
	b.source.opts.Node = "other"
	b.source.reader.node = "other"
	b.stop()
	b.stop = runInBackground(t, b.source.Run)
	b.sink.awaitPods("a=1")
	if count := b.loader.count(b.path("a.yaml")); count != 2 {
		t.Errorf("loaded %d times, want 2", count)
	}
}

// A scan without changes reads and delivers nothing.
func TestFileSourceIdleScan(t *testing.T) {
	b := newFileHarness(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		b.write(name+".yaml", name+" 1")
	}
	b.write("e.yaml", "broken")
	b.make()
	b.source.restore()
	defer b.source.watch.close()
	b.source.scan(t.Context())
	b.sink.awaitPods("a=1", "b=1", "c=1", "d=1")
	stat := map[string]string{}
	for path, unit := range b.source.units {
		stat[path] = unit.digest
		unit.digest = "not read again"
	}
	for range 3 {
		b.source.scan(t.Context())
	}
	for path, unit := range b.source.units {
		if unit.digest != "not read again" || stat[path] == "" {
			t.Errorf("%s was read again", path)
		}
	}
	if len(b.sink.sets) > 0 {
		t.Error("a set was delivered")
	}
}

// Run stops everything that it started.
func TestFileSourceRunEnds(t *testing.T) {
	b := newFileHarness(t)
	b.make()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- b.source.Run(ctx) }()
	b.sink.awaitPods()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if b.source.watch.stream != nil {
		t.Error("the watch is still open")
	}
}

func TestReadManifestRejectsGrowingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), MaxUnitSize), 0o644); err != nil {
		t.Fatal(err)
	}
	content, err := readManifest(path)
	if err != nil || len(content.data) != MaxUnitSize || content.torn || content.writer {
		t.Errorf("read %d bytes, %v", len(content.data), err)
	}
}

// A removed manifest that reappears with invalid content has no last good
// revision, even while another invalid manifest keeps the set incomplete.
func TestFileSourceRemovedFromIncompleteSet(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(b *fileHarness)
	}{
		{"first start", func(*fileHarness) {}},
		{"after a restart", func(b *fileHarness) {
			b.start()
			b.sink.awaitPods("counter=1", "web=1")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newFileHarness(t)
			b.write("web.yaml", "web 1")
			b.write("counter.yaml", "counter 1")
			b.write("z.yaml", "broken")
			c.prepare(b)
			b.start()
			b.sink.awaitPods("counter=1", "web=1")
			b.must(os.Remove(b.path("counter.yaml")))
			b.sink.awaitPods("web=1")
			b.write("counter.yaml", "invalid")
			b.sink.awaitFault("is broken: invalid")
			b.wantLog("RESTORE file counter=1 web=1", "REMOVE file counter=1")
			// Neither does a restart bring it back.
			b.start()
			b.sink.awaitFault("is broken: invalid")
			b.wantLog("RESTORE file web=1")
			// The name is free for another manifest.
			b.write("other.yaml", "counter 2")
			b.sink.awaitPods("counter=2", "web=1")
		})
	}
}

// A file of the kernel whose read blocks is given up after a while.
func TestReadManifestThatBlocks(t *testing.T) {
	t.Parallel()
	start := time.Now()
	_, err := readManifest("/proc/kmsg")
	if errors.Is(err, os.ErrPermission) {
		return // without CAP_SYSLOG it is a file that cannot be read, which does not block either
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read /proc/kmsg: %v", err)
	}
	if took := time.Since(start); took > 100*readTimeout {
		t.Errorf("it took %v", took)
	}
	if _, fault := ReadFile("/proc/kmsg"); fault != nil && !strings.Contains(fault.Problem, "it blocks for more than 2s") {
		t.Errorf("read /proc/kmsg: %v", fault)
	}
}
