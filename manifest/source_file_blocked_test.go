package manifest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A directory whose listing hangs, such as that of a file server that is gone, is a fault of the
// source: nothing that runs is lost, also after a restart of the daemon, and the directory is read
// as soon as it responds.
func TestFileSourceDirectoryThatDoesNotAnswer(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, watch *fakeWatch) {
		var hangs atomic.Bool
		release := make(chan struct{})
		hang := func(path string) ([]fs.DirEntry, error) {
			if hangs.Load() {
				<-release
			}
			return os.ReadDir(path)
		}
		faults := func() string { return Faults(b.sink.config.Faults()).Error() }
		b.source.readDir = hang
		b.write("a.yaml", "a 1")
		b.runInBubble()
		b.wantRunning("a=1")

		hangs.Store(true)
		b.write("b.yaml", "b 1")
		since := time.Now().Add(20 * time.Second)
		b.pass(20*time.Second + directoryTimeout)
		text := faults()
		if want := fmt.Sprintf("%s: has not answered since %s", b.directory,
			since.Format(time.RFC3339)); !strings.HasPrefix(text, want) {
			t.Errorf("the fault is %q, want %q", text, want)
		}
		sets := len(b.sink.sets)
		b.pass(time.Hour)
		if faults() != text || len(b.sink.sets) != sets {
			t.Errorf("after an hour: %d more sets, %s", len(b.sink.sets)-sets, faults())
		}
		b.wantRunning("a=1")

		// The daemon can be stopped meanwhile, and starts from the checkpoint.
		began := time.Now()
		b.stop()
		if took := time.Since(began); took != 0 {
			t.Errorf("the source stopped after %v", took)
		}
		b.make()
		b.source.watch.open, b.source.readDir = watch.open, hang
		b.runInBubble()
		b.pass(directoryTimeout)
		if !strings.Contains(faults(), "has not answered since ") {
			t.Errorf("after a restart: %s", faults())
		}
		b.wantRunning("a=1")

		hangs.Store(false)
		close(release)
		b.pass(time.Second)
		b.wantRunning("a=1", "b=1")
		if list := b.sink.config.Faults(); len(list) > 0 {
			t.Errorf("faults are %v", list)
		}
	})
}

// A directory that takes longer to respond cannot be told from one that never does: the pods of the
// checkpoint start, and one whose manifest was removed while the daemon did not run ends as soon as
// the directory is listed.
func TestFileSourceSlowDirectoryAfterARemoval(t *testing.T) {
	inFileBubble(t, func(t *testing.T, b *fileHarness, watch *fakeWatch) {
		b.write("a.yaml", "a 1")
		b.write("b.yaml", "b 1")
		b.runInBubble()
		b.wantRunning("a=1", "b=1")
		b.stop()
		if err := os.Remove(filepath.Join(b.directory, "b.yaml")); err != nil {
			t.Fatal(err)
		}

		b.make()
		release := make(chan struct{})
		b.source.watch.open = watch.open
		b.source.readDir = func(path string) ([]fs.DirEntry, error) {
			<-release
			return os.ReadDir(path)
		}
		b.runInBubble()
		b.pass(directoryTimeout - time.Second)
		b.wantRunning()
		b.pass(time.Second)
		b.wantRunning("a=1", "b=1")
		close(release)
		b.pass(2 * confirmDelay)
		b.wantRunning("a=1")
	})
}

// Files that block are read at the same time: they delay the others as long as one of them does.
func TestFileSourceManyBlockingFiles(t *testing.T) {
	const count = 50
	inFileBubble(t, func(t *testing.T, b *fileHarness, _ *fakeWatch) {
		release := make(chan struct{})
		b.source.inspectFile = func(path string, read func(fs.FileInfo) bool) inspection {
			if !strings.HasSuffix(path, "/z.yaml") {
				<-release
			}
			return inspectFile(path, read)
		}
		want := []string{"z=1"}
		for i := range count {
			b.write(fmt.Sprintf("p%02d.yaml", i), fmt.Sprintf("p%02d 1", i))
			want = append(want, fmt.Sprintf("p%02d=1", i))
		}
		b.write("z.yaml", "z 1")
		b.runInBubble()
		b.pass(readTimeout + 2*blockedSlack)
		b.wantRunning("z=1")
		if faults := b.sink.config.Faults(); len(faults) != count {
			t.Errorf("%d faults, want %d", len(faults), count)
		}
		close(release)
		b.pass(defaultRescan)
		if got := b.sink.model.running(); len(got) != len(want) {
			t.Errorf("running: %q", got)
		}
	})
}
