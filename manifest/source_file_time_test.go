package manifest

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// fakeWatch replaces inotify, so that time can be faked.
type fakeWatch struct {
	events chan fsnotify.Event
	errs   chan error
	// fail is the error of opening a watch, nil for none.
	fail        atomic.Pointer[error]
	opened      int
	directories []string
	closed      int
}

func (w *fakeWatch) open(directories []string) (*watchStream, error) {
	if fail := w.fail.Load(); fail != nil {
		return nil, *fail
	}
	w.opened++
	w.directories = directories
	return &watchStream{events: w.events, errs: w.errs, close: func() error { w.closed++; return nil }}, nil
}

// inFileBubble runs a test with a fake watch and fake time over real files.
func inFileBubble(t *testing.T, test func(t *testing.T, b *fileHarness, watch *fakeWatch)) {
	synctest.Test(t, func(t *testing.T) {
		b := makeFileHarness(t)
		b.rescan = 0
		b.make()
		watch := &fakeWatch{events: make(chan fsnotify.Event), errs: make(chan error)}
		b.source.watch.open = watch.open
		test(t, b, watch)
	})
}

func (b *fileHarness) runInBubble() {
	b.stop = runInBackground(b.t, b.source.Run)
	synctest.Wait()
	b.sink.model.drain(b.sink.config)
}

// pass advances the time and applies the resulting updates.
func (b *fileHarness) pass(d time.Duration) {
	sleepInBubble(d)
	b.sink.model.drain(b.sink.config)
}

func (w *fakeWatch) tell(path string) { w.report(path, fsnotify.Write) }

func (w *fakeWatch) report(path string, op fsnotify.Op) {
	w.events <- fsnotify.Event{Name: path, Op: op}
	synctest.Wait()
}

func TestFileSourceScansPeriodically(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, _ *fakeWatch) {
		b.runInBubble()
		b.wantLog("ADD file")
		b.write("a.yaml", "a 1")
		b.pass(20*time.Second - time.Nanosecond)
		b.wantLog("ADD file")
		b.pass(time.Nanosecond)
		b.wantLog("ADD file", "ADD file a=1")
		// Nothing is delivered for hours without changes.
		sets := len(b.sink.sets)
		b.pass(2 * time.Hour)
		if len(b.sink.sets) != sets {
			t.Error("sets were delivered without a change")
		}
	})
}

func TestFileSourceSettles(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, watch *fakeWatch) {
		b.runInBubble()
		b.write("a.yaml", "a 1")
		watch.tell(b.path("a.yaml"))
		b.pass(settleQuiet - time.Nanosecond)
		b.wantLog("ADD file")
		b.pass(time.Nanosecond)
		b.wantLog("ADD file", "ADD file a=1")

		// A directory that is never quiet is scanned as well.
		began := time.Now()
		b.write("a.yaml", "a 2")
		for b.sink.model.pods["file-a-2"] == nil && time.Since(began) < time.Minute {
			watch.tell(b.path("a.yaml"))
			b.pass(settleQuiet / 2)
		}
		if took := time.Since(began); took > settleBound+settleQuiet {
			t.Errorf("it took %v", took)
		}
	})
}

// A file that is renamed into place is read at once; one that is created and then written, or that
// comes while another one is written, is not.
func TestFileSourceSettlesSoonerAfterARename(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, watch *fakeWatch) {
		b.runInBubble()
		b.write("a.yaml", "a 1")
		watch.report(b.path("a.yaml"), fsnotify.Create)
		b.pass(settleComplete - time.Nanosecond)
		b.wantLog("ADD file")
		b.pass(time.Nanosecond)
		b.wantLog("ADD file", "ADD file a=1")

		b.write("b.yaml", "b 1")
		watch.report(b.path("b.yaml"), fsnotify.Create)
		watch.tell(b.path("b.yaml"))
		watch.report(b.path("c.yaml"), fsnotify.Create)
		b.pass(settleQuiet - time.Nanosecond)
		b.wantLog("ADD file", "ADD file a=1")
		b.pass(time.Nanosecond)
		b.wantLog("ADD file", "ADD file a=1", "ADD file b=1")
	})
}

func TestFileSourceIgnoresOtherEvents(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, watch *fakeWatch) {
		b.runInBubble()
		for _, name := range []string{".a.yaml.swp", "4913", "a.yaml~"} {
			watch.tell(b.path(name))
		}
		watch.tell(b.root + "/other")
		if !b.source.due.settled.IsZero() {
			t.Error("a scan was scheduled")
		}
	})
}

// A removal is confirmed one second later, whatever happens in between.
func TestFileSourceConfirmsRemovals(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, watch *fakeWatch) {
		b.write("a.yaml", "a 1")
		b.write("b.yaml", "b 1")
		b.runInBubble()
		b.must(os.Remove(b.path("a.yaml")))
		watch.tell(b.path("a.yaml"))
		b.pass(settleQuiet)
		b.pass(confirmDelay / 2)
		b.write("b.yaml", "b 2")
		watch.tell(b.path("b.yaml"))
		b.pass(confirmDelay/2 - time.Nanosecond)
		b.wantLog("ADD file a=1 b=1", "REMOVE file b=1", "ADD file b=2")
		b.pass(time.Nanosecond)
		b.wantLog("ADD file a=1 b=1", "REMOVE file b=1", "ADD file b=2", "REMOVE file a=1")
	})
}

// A file that reappears in time was never removed.
func TestFileSourceRemovalReverted(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, watch *fakeWatch) {
		b.write("a.yaml", "a 1")
		b.runInBubble()
		for range 3 {
			b.must(os.Remove(b.path("a.yaml")))
			watch.tell(b.path("a.yaml"))
			b.pass(settleQuiet + confirmDelay - time.Nanosecond)
			b.write("a.yaml", "a 1")
			b.pass(50 * time.Second) // not when the periodic scan is due
		}
		b.wantLog("ADD file a=1")
	})
}

// The second scan must be able to read the directory.
func TestFileSourceUnreadableDirectoryConfirmsNothing(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, watch *fakeWatch) {
		var fail atomic.Pointer[error]
		b.source.readDir = func(path string) ([]fs.DirEntry, error) {
			if err := fail.Load(); err != nil {
				return nil, &fs.PathError{Op: "open", Path: path, Err: *err}
			}
			return os.ReadDir(path)
		}
		b.write("a.yaml", "a 1")
		b.runInBubble()
		b.must(os.Remove(b.path("a.yaml")))
		watch.tell(b.path("a.yaml"))
		b.pass(settleQuiet)
		for _, err := range []error{syscall.EACCES, syscall.EIO} {
			fail.Store(&err)
			b.pass(time.Minute)
			if text := Faults(b.sink.config.Faults()).Error(); !strings.HasPrefix(text,
				b.directory+": cannot be read: "+err.Error()+"; make it readable") {
				t.Errorf("faults are %s", text)
			}
		}
		b.wantLog("ADD file a=1")
		fail.Store(nil)
		// Earlier misses no longer count.
		for sets := len(b.sink.sets); len(b.sink.sets) == sets; {
			b.pass(time.Millisecond)
		}
		b.pass(confirmDelay - time.Millisecond)
		b.wantLog("ADD file a=1")
		b.pass(time.Millisecond)
		b.wantLog("ADD file a=1", "REMOVE file a=1")
	})
}

func TestFileSourceUnreadableDirectoryAtStart(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, _ *fakeWatch) {
		b.source.readDir = func(string) ([]fs.DirEntry, error) { return nil, syscall.EIO }
		b.runInBubble()
		if set := <-b.sink.sets; !set.Restored || set.Fault == nil {
			t.Errorf("set is %+v", set)
		}
		b.wantLog()
	})
}

// An overflow means that events are lost: everything is read again, even a
// file whose times and size are the same.
func TestFileSourceOverflow(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, watch *fakeWatch) {
		b.write("a.yaml", "a 1")
		b.runInBubble()
		b.write("b.yaml", "b 1")
		b.source.units[b.path("a.yaml")].digest = "of other bytes"
		loads := b.loader.count(b.path("b.yaml"))
		watch.errs <- fsnotify.ErrEventOverflow
		synctest.Wait()
		b.pass(0)
		b.wantLog("ADD file a=1", "ADD file b=1")
		if b.source.units[b.path("a.yaml")].digest == "of other bytes" || b.loader.count(b.path("b.yaml")) == loads {
			t.Error("not everything was read again")
		}
	})
}

func TestFileSourceWatchBreaks(t *testing.T) {
	for name, breakIt := range map[string]func(*fakeWatch){
		"error": func(w *fakeWatch) { w.errs <- errors.New("it broke") },
		"ended": func(w *fakeWatch) {
			ended := w.events
			w.events = make(chan fsnotify.Event) // before the source learns of it and reads it
			close(ended)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFileBubble(t, func(t *testing.T, b *fileHarness, watch *fakeWatch) {
				b.runInBubble()
				breakIt(watch)
				synctest.Wait()
				b.write("a.yaml", "a 1")
				b.pass(confirmDelay)
				b.wantLog("ADD file", "ADD file a=1")
				if watch.opened != 2 || watch.closed != 1 {
					t.Errorf("opened %d times, closed %d", watch.opened, watch.closed)
				}
			})
		})
	}
}

// Without a watch the periodic scans have to suffice, which is logged once.
func TestFileSourceWithoutWatch(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, watch *fakeWatch) {
		full := error(syscall.ENOSPC)
		watch.fail.Store(&full)
		b.runInBubble()
		for _, script := range []string{"a 1", "a 2", "a 3"} {
			b.write("a.yaml", script)
			b.pass(20 * time.Second)
		}
		b.wantLog("ADD file", "ADD file a=1", "REMOVE file a=1", "ADD file a=2", "REMOVE file a=2", "ADD file a=3")
		if got := b.lines.with("Failed to watch the manifest directory"); len(got) != 1 {
			t.Errorf("logged %q", got)
		}
		watch.fail.Store(nil)
		b.pass(time.Hour)
		if got := b.lines.with("Watching the manifest directory again"); len(got) != 1 || watch.opened != 1 {
			t.Errorf("logged %q, opened %d times", got, watch.opened)
		}
	})
}

// The path to the directory is watched from the root, so that a directory that is
// created later is noticed.
func TestFileSourceWatchesParents(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, watch *fakeWatch) {
		b.must(os.Remove(b.directory))
		b.runInBubble()
		if last := watch.directories[len(watch.directories)-1]; watch.directories[0] != "/" || last != b.root {
			t.Errorf("watched are %q", watch.directories)
		}
		b.must(os.Mkdir(b.directory, 0o755))
		watch.tell(b.directory)
		b.pass(settleQuiet)
		if last := watch.directories[len(watch.directories)-1]; last != b.directory {
			t.Errorf("watched are %q", watch.directories)
		}
		b.wantLog("ADD file")
	})
}

// Removed and created again between two scans, perhaps with the same inode.
func TestFileSourceDirectoryRecreated(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, _ *fakeWatch) {
		b.write("a.yaml", "a 1")
		b.runInBubble()
		b.must(os.RemoveAll(b.directory))
		b.must(os.Mkdir(b.directory, 0o755))
		b.pass(time.Hour)
		b.wantLog("ADD file a=1")
		if text := Faults(b.sink.config.Faults()).Error(); !strings.Contains(text,
			"was replaced by a directory without manifests") {
			t.Errorf("faults are %s", text)
		}
		b.write("b.yaml", "b 1")
		b.pass(time.Hour)
		b.wantLog("ADD file a=1", "ADD file b=1", "REMOVE file a=1")
	})
}

// A missing mount after a reboot, which changes device numbers.
func TestFileSourceRecognizesDirectoryAfterReboot(t *testing.T) {
	for name, c := range map[string]struct {
		before func(now directoryIdentity) directoryIdentity
		same   bool
	}{
		"other device number": {func(f directoryIdentity) directoryIdentity { f.Device++; return f }, true},
		"was mounted":         {func(f directoryIdentity) directoryIdentity { f.Mounted = !f.Mounted; return f }, false},
		"made later":          {func(f directoryIdentity) directoryIdentity { f.Born--; return f }, false},
		"other inode":         {func(f directoryIdentity) directoryIdentity { f.Inode++; return f }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inFileBubble(t, func(t *testing.T, b *fileHarness, _ *fakeWatch) {
				directory, err := identifyDirectory(b.directory)
				b.must(err)
				cp := b.source.opts.Checkpoint
				cp.setDirectory(SourceFile, c.before(directory))
				cp.accept(SourceFile, []Unit{scriptUnit(b.path("a.yaml"), "a 1", SourceFile)}, true)
				b.runInBubble()
				b.pass(time.Minute)
				if c.same {
					b.wantLog("ADD file")
				} else {
					b.wantLog("RESTORE file a=1")
				}
			})
		})
	}
}

// In a set that is not complete, too, a removal is confirmed one second later,
// and a manifest that is replaced in two steps keeps its last good revision.
func TestFileSourceConfirmsRemovalsFromIncompleteSet(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, watch *fakeWatch) {
		b.write("a.yaml", "a 1")
		b.write("z.yaml", "broken")
		b.runInBubble()
		b.must(os.Remove(b.path("a.yaml")))
		watch.tell(b.path("a.yaml"))
		b.pass(settleQuiet + confirmDelay - time.Nanosecond)
		b.write("a.yaml", "half-written")
		b.pass(50 * time.Second)
		b.wantLog("RESTORE file a=1")
		b.must(os.Remove(b.path("a.yaml")))
		watch.tell(b.path("a.yaml"))
		b.pass(settleQuiet + confirmDelay - time.Nanosecond)
		b.wantLog("RESTORE file a=1")
		b.pass(time.Nanosecond)
		b.wantLog("RESTORE file a=1", "REMOVE file a=1")
	})
}

// A directory that cannot be trusted confirms no removal: one that was replaced
// by an empty one, as by an unmount, deletes no record of an incomplete set.
func TestFileSourceReplacedDirectoryKeepsRecords(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, watch *fakeWatch) {
		b.write("a.yaml", "a 1")
		b.write("z.yaml", "broken")
		b.runInBubble()
		gone := b.directory + ".gone"
		b.must(os.Rename(b.directory, gone))
		b.must(os.Mkdir(b.directory, 0o755))
		watch.tell(b.directory)
		b.pass(2 * time.Minute)
		b.wantLog("RESTORE file a=1")
		if _, ok := b.source.opts.Checkpoint.accepted(SourceFile, b.path("a.yaml")); !ok {
			t.Error("the record of a.yaml was deleted")
		}
		b.must(os.Remove(b.directory))
		b.must(os.Rename(gone, b.directory))
		b.write("a.yaml", "invalid")
		watch.tell(b.directory)
		b.pass(2 * time.Minute)
		b.wantLog("RESTORE file a=1")
	})
}

// A file that blocks is a fault of its own: the others take effect, its last good revision
// stays, and it is read as soon as it no longer blocks.
func TestFileSourceBlockingFile(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, _ *fakeWatch) {
		b.write("a.yaml", "a 1")
		b.write("b.yaml", "b 1")
		var blocked atomic.Bool
		var accesses atomic.Int32
		release := make(chan struct{})
		b.source.inspectFile = func(path string, read func(fs.FileInfo) bool) inspection {
			if path == b.path("a.yaml") && blocked.Load() {
				accesses.Add(1)
				<-release
			}
			return inspectFile(path, read)
		}
		var scanned time.Time
		b.source.opts.Scanned = func(at time.Time) { scanned = at }
		b.runInBubble()
		b.wantRunning("a=1", "b=1")

		blocked.Store(true)
		b.write("a.yaml", "a 2")
		b.write("b.yaml", "b 2")
		b.pass(25 * time.Second)
		b.wantRunning("a=1", "b=2")
		if text := Faults(b.sink.config.Faults()).Error(); !strings.Contains(text,
			"a.yaml: cannot be read: it blocks for more than 2s") || strings.Contains(text, "b.yaml") {
			t.Errorf("faults are %s", text)
		}
		b.pass(10 * time.Minute)
		if n := accesses.Load(); n != 1 {
			t.Errorf("%d accesses block at the same time, want 1", n)
		}
		if ago := time.Since(scanned); ago > 30*time.Second {
			t.Errorf("the last scan was %v ago", ago)
		}
		blocked.Store(false)
		close(release)
		b.pass(time.Second)
		b.wantRunning("a=2", "b=2")
		if faults := b.sink.config.Faults(); len(faults) > 0 {
			t.Errorf("faults are %v", faults)
		}
	})
}

func (b *fileHarness) wantRunning(want ...string) {
	b.t.Helper()
	if got := b.sink.model.running(); !slices.Equal(got, want) {
		b.t.Errorf("running: %q, want %q", got, want)
	}
}
