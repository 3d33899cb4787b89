package gc

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstead/podstead/cri"
)

// writer is a container that writes lines to its log as containerd does: to
// the file that it has open, whatever that is called by now.
type writer struct {
	world
	mu      sync.Mutex
	path    string
	file    *os.File
	lines   int
	reopens int
	refuse  error
	// lost: the next response is lost, though the log is reopened.
	lost  bool
	armed map[string]bool
	grown chan string
}

func newWriter(t *testing.T) *writer {
	t.Helper()
	w := &writer{path: filepath.Join(t.TempDir(), "pods", "default_p_p", "web", "0.log"), armed: map[string]bool{},
		grown: make(chan string, 10)}
	touch(t, w.path)
	w.open(t)
	t.Cleanup(func() { _ = w.file.Close() })
	w.set(podOf("p", "s1=ready web/0=running@s1"))
	return w
}

func (w *writer) open(t testing.TB) {
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		t.Error(err)
		return
	}
	w.file = f
}

func (w *writer) ReopenContainerLog(context.Context, string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		return w.refuse
	}
	w.reopens++
	_ = w.file.Close()
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	w.file = f
	if w.lost {
		w.lost = false
		return errors.New("the answer is lost")
	}
	return nil
}

// print writes so many lines of a hundred bytes.
func (w *writer) print(t *testing.T, lines int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for range lines {
		fmt.Fprintf(&b, "%09d %s\n", w.lines, strings.Repeat("x", 89))
		w.lines++
	}
	if _, err := w.file.WriteString(b.String()); err != nil {
		t.Fatal(err)
	}
	if w.armed[w.path] {
		delete(w.armed, w.path)
		w.grown <- w.path
	}
}

func (w *writer) Arm(path string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed[path] = true
	return nil
}

func (w *writer) Disarm(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.armed, path)
}

func (w *writer) Written() <-chan string { return w.grown }

func (w *writer) files(t *testing.T) string { return tree(t, filepath.Dir(w.path)) }

// rotator runs a rotator of w's log.
func rotator(t *testing.T, w *writer, p LogPolicy) *Logs {
	t.Helper()
	l := NewLogs(LogsConfig{Policy: p, Runtime: w, Root: filepath.Dir(filepath.Dir(filepath.Dir(w.path))), Events: w,
		Watcher: w})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	l.Wake()
	return l
}

// numbers reads all lines in the order of the files and fails unless they are
// the numbers from some one on, without a gap; it returns the first.
func (w *writer) numbers(t *testing.T) (first int) {
	t.Helper()
	names, err := rotatedNames(w.path)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, name := range append(names, filepath.Base(w.path)) {
		f, err := os.Open(filepath.Join(filepath.Dir(w.path), name))
		if err != nil {
			t.Fatal(err)
		}
		var r io.Reader = f
		if strings.HasSuffix(name, ".gz") {
			if r, err = gzip.NewReader(f); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.Copy(&text, r); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	next := -1
	for line := range strings.Lines(text.String()) {
		var n int
		if _, err := fmt.Sscanf(line, "%09d ", &n); err != nil || len(line) != 100 {
			t.Fatalf("line %q: %v", line, err)
		}
		if next < 0 {
			next, first = n, n
		}
		if n != next {
			t.Fatalf("line %d comes after %d", n, next-1)
		}
		next++
	}
	if next != w.lines {
		t.Fatalf("the last line is %d of %d", next-1, w.lines)
	}
	return first
}

// rotatedNames returns the names of the rotated files of a log, oldest first.
func rotatedNames(log string) ([]string, error) {
	d, err := openLogDir(filepath.Dir(log))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.rotated(filepath.Base(log))
}

func TestLogIsRotatedByGrowth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		rotator(t, w, LogPolicy{MaxSize: 100_000, MaxFiles: 4})
		synctest.Wait()
		// 10 kB a second: a file fills in 10 s.
		for range 60 {
			w.print(t, 100)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if first := w.numbers(t); first == 0 {
			t.Error("no file was removed")
		}
		names, _ := rotatedNames(w.path)
		if len(names) != 3 {
			t.Errorf("files %s, want 3 rotated ones", w.files(t))
		}
		for _, name := range names {
			info, err := os.Stat(filepath.Join(filepath.Dir(w.path), name))
			if err != nil || !strings.HasSuffix(name, ".gz") && (info.Size() < 100_000 || info.Size() > 120_000) {
				t.Errorf("%s has %d bytes: checked too late: %v", name, info.Size(), err)
			}
		}
		// All but the newest are compressed when it is quiet.
		time.Sleep(compressAfter + 5*time.Second)
		synctest.Wait()
		if got := w.files(t); strings.Count(got, ".gz") != 2 || strings.Contains(got, tmpSuffix) {
			t.Errorf("after a silence the files are %s", got)
		}
		w.numbers(t)
	})
}

// A log that is rotated all the time is compressed too, unless its files are removed before
// that pays off.
func TestCompressionOfALogThatNeverRests(t *testing.T) {
	for name, c := range map[string]struct {
		lines, files int // a second; at most
		compressed   bool
	}{
		"a file in 5 s":                {200, 20, true},
		"a file in 5 s, few files":     {200, 3, false},
		"a file a second, many files":  {1000, 40, true},
		"a file a second, five files":  {1000, 5, false},
		"a file in 9 s, as by default": {111, 5, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWriter(t)
				rotator(t, w, LogPolicy{MaxSize: 100_000, MaxFiles: c.files})
				synctest.Wait()
				for range 90 {
					w.print(t, c.lines)
					time.Sleep(time.Second)
				}
				synctest.Wait()
				if got := w.files(t); strings.Contains(got, gzSuffix) != c.compressed {
					t.Errorf("compressed: %v, want %v: %s", !c.compressed, c.compressed, got)
				}
				w.numbers(t)
			})
		})
	}
}

// A fast writer fills several files a second; none takes another's name, and
// only what goes by the bound is lost.
func TestFastWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		rotator(t, w, LogPolicy{MaxSize: 100_000, MaxFiles: 100})
		synctest.Wait()
		for range 200 { // 1 MB/s for 4 s
			w.print(t, 200)
			time.Sleep(20 * time.Millisecond)
		}
		synctest.Wait()
		if first := w.numbers(t); first != 0 || w.reopens < 15 {
			t.Errorf("%d rotations; the first line left is %d", w.reopens, first)
		}
	})
}

func TestSilentLogCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		l := rotator(t, w, LogPolicy{MaxSize: 100_000, MaxFiles: 3})
		w.print(t, 10)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !w.armed[w.path] || !l.logs["p:web/0"].next.IsZero() {
			t.Fatalf("a silent log is not armed: %+v", l.logs)
		}
		// What is printed after a long silence, all at once, is seen soon.
		time.Sleep(24 * time.Hour)
		w.print(t, 1500)
		time.Sleep(2 * minCheckInterval)
		synctest.Wait()
		if w.reopens != 1 {
			t.Errorf("%d rotations after a burst", w.reopens)
		}
		w.set(podOf("p", "s1=ready web/0=exited@s1"))
		l.Wake()
		synctest.Wait()
		if len(w.armed) != 0 || len(l.logs) != 0 {
			t.Errorf("the log of an ended container is watched: %v %v", w.armed, l.logs)
		}
	})
}

func TestFailedRotationRestoresTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		w.refuse = errors.New("no such container")
		rotator(t, w, LogPolicy{MaxSize: 10_000, MaxFiles: 3})
		w.print(t, 200)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.files(t); got != "0.log" {
			t.Errorf("files %s", got)
		}
		if len(w.eventTexts()) != 0 {
			t.Errorf("told at once: %q; it may just have ended", w.eventTexts())
		}
		time.Sleep(2 * rotateRetry)
		synctest.Wait()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(w.eventTexts()) != 1 || !strings.Contains(w.eventTexts()[0], "false Warning LogRotationFailed: ") {
			t.Errorf("events %q", w.eventTexts())
		}
		w.print(t, 1)
		w.mu.Lock()
		w.refuse = nil
		w.mu.Unlock()
		time.Sleep(2 * rotateRetry)
		synctest.Wait()
		if w.reopens != 1 || w.numbers(t) != 0 {
			t.Errorf("%d rotations after it works again: %s", w.reopens, w.files(t))
		}
	})
}

func TestLostReplyLosesNoLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		w.lost = true
		rotator(t, w, LogPolicy{MaxSize: 10_000, MaxFiles: 10})
		for range 20 {
			w.print(t, 50)
			time.Sleep(time.Second)
		}
		time.Sleep(rotateRetry)
		synctest.Wait()
		if first := w.numbers(t); first != 0 || w.reopens < 2 {
			t.Errorf("%d rotations, first line %d: %s", w.reopens, first, w.files(t))
		}
	})
}

// A daemon was killed between the two steps of a rotation: the container still
// writes to the renamed file.
func TestInterruptedRotationIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		w.print(t, 50)
		if err := os.Rename(w.path, w.path+".20260101-000000.000"); err != nil {
			t.Fatal(err)
		}
		w.print(t, 50)
		touch(t, w.path+".20250101-000000.000.gz.tmp")
		rotator(t, w, LogPolicy{MaxSize: 100_000, MaxFiles: 3})
		synctest.Wait()
		w.print(t, 50)
		time.Sleep(compressAfter + time.Second)
		synctest.Wait()
		if first := w.numbers(t); first != 0 || w.reopens != 1 || w.files(t) != "0.log 0.log.20260101-000000.000" {
			t.Errorf("%d reopened, first line %d: %s", w.reopens, first, w.files(t))
		}
	})
	// The new log is bounded from its beginning.
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		if err := os.Rename(w.path, w.path+".20260101-000000.000"); err != nil {
			t.Fatal(err)
		}
		rotator(t, w, LogPolicy{MaxSize: 100_000, MaxFiles: 200})
		synctest.Wait()
		for range 200 { // 1 MB/s for 10 s
			w.print(t, 500)
			time.Sleep(50 * time.Millisecond)
		}
		synctest.Wait()
		if first := w.numbers(t); first != 0 || w.reopens < 5 {
			t.Errorf("%d reopened, first line %d: %s", w.reopens, first, w.files(t))
		}
	})
}

func TestLinksAreNotRotated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		w.print(t, 5000)
		docker := filepath.Join(t.TempDir(), "x-json.log")
		if err := os.Rename(w.path, docker); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(docker, w.path); err != nil {
			t.Fatal(err)
		}
		rotator(t, w, LogPolicy{MaxSize: 10_000, MaxFiles: 3})
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.reopens != 0 || w.files(t) != "0.log" {
			t.Errorf("%d reopened: %s", w.reopens, w.files(t))
		}
	})
}

func TestNamesSortByAgeWhateverTheClockSays(t *testing.T) {
	log := "/x/0.log"
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var names []string
	for _, now := range []time.Time{at, at, at.Add(-48 * time.Hour), at.Add(time.Second), at.AddDate(-56, 0, 0)} {
		name := rotatedName(log, names, now)
		if len(names) > 0 && name <= names[len(names)-1] {
			t.Errorf("%s comes after %s", name, names[len(names)-1])
		}
		names = append(names, name)
	}
	if names[0] != "0.log.20260501-120000.000" || names[1] != "0.log.20260501-120000.001" {
		t.Errorf("names are %v", names)
	}
	// The kubelet's own names, and compressed ones, count.
	if got := rotatedName(log, []string{"0.log.20270101-000000.gz"}, at); got <= "0.log.20270101-000000" {
		t.Errorf("%s comes before a file of the kubelet's", got)
	}
}

func TestFilesOverLimit(t *testing.T) {
	file := func(path string, size int64, age int, current bool) logFile {
		return logFile{path: path, size: size, modified: now.Add(-time.Duration(age) * time.Minute), current: current}
	}
	files := []logFile{file("a/1.log", 50, 0, true), file("a/1.log.x", 40, 5, false), file("a/0.log", 30, 50, false),
		file("b/0.log", 20, 90, true), file("b/0.log.y", 10, 70, false)}
	for _, c := range []struct {
		most int64
		want string
	}{{150, "[]"}, {149, "[b/0.log.y]"}, {140, "[b/0.log.y]"}, {139, "[b/0.log.y a/0.log]"},
		{0, "[b/0.log.y a/0.log a/1.log.x]"}} {
		if got := fmt.Sprint(filesOverLimit(files, c.most)); got != c.want {
			t.Errorf("bound %d: goes %s, want %s", c.most, got, c.want)
		}
	}
}

func TestPodLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		old := filepath.Join(filepath.Dir(filepath.Dir(w.path)), "job", "0.log")
		touch(t, old)
		if err := os.WriteFile(old, make([]byte, 30_000), 0o600); err != nil {
			t.Fatal(err)
		}
		rotator(t, w, LogPolicy{MaxSize: 10_000, MaxFiles: 100, MaxPod: 50_000})
		for range 30 {
			w.print(t, 100)
			time.Sleep(time.Second)
			total := int64(0)
			for _, f := range podLogs(filepath.Dir(filepath.Dir(w.path)), nil) {
				total += f.size
			}
			// What is written meanwhile comes on top.
			if total > 50_000+3*10_000 {
				t.Fatalf("the pod has logs of %d bytes", total)
			}
		}
		if _, err := os.Stat(old); !os.IsNotExist(err) {
			t.Errorf("the oldest log is still there: %v", err)
		}
		w.numbers(t)
	})
}

func TestInotifyReportsOnceAfterArming(t *testing.T) {
	w, err := newInotify()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.run(ctx) }()
	defer func() { cancel(); <-done }()
	path := filepath.Join(t.TempDir(), "0.log")
	touch(t, path)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	print := func() {
		if _, err := f.WriteString("x\n"); err != nil {
			t.Fatal(err)
		}
	}
	told := func(want bool) {
		t.Helper()
		limit := 3 * time.Minute
		if !want {
			limit = 50 * time.Millisecond
		}
		select {
		case got := <-w.Written():
			if !want || got != path {
				t.Fatalf("reported %q", got)
			}
		case <-time.After(limit):
			if want {
				t.Fatal("a write is not told")
			}
		}
	}
	arm := func() {
		if err := w.Arm(path); err != nil {
			t.Fatal(err)
		}
	}
	print()
	told(false)
	arm()
	print()
	told(true)
	print()
	told(false)
	arm()
	arm() // twice is as once
	print()
	told(true)
	told(false)
	arm()
	w.Disarm(path)
	print()
	told(false)
	arm()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	told(true) // it is gone: worth a look
	if len(w.paths) != 0 || len(w.wds) != 0 {
		t.Errorf("%d watches are held", len(w.paths))
	}
}

func BenchmarkCheckThousandLogs(b *testing.B) {
	w := &writer{armed: map[string]bool{}, grown: make(chan string)}
	dir := b.TempDir()
	l := NewLogs(LogsConfig{Policy: LogPolicy{MaxSize: 1 << 20, MaxFiles: 5}, Runtime: w, Root: dir, Watcher: w})
	pod := &cri.Pod{UID: "p", Name: "p", Namespace: "default"}
	for i := range 1000 {
		name := fmt.Sprint("c", i)
		path := filepath.Join(cri.LogDirectory(dir, "default", "p", "p"), name, "0.log")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			b.Fatal(err)
		}
		pod.Containers = append(pod.Containers, cri.Container{ID: name, Name: name, State: cri.StateRunning})
	}
	l.updateRunning(&cri.Observed{Own: []*cri.Pod{pod}, At: time.Now()})
	for b.Loop() {
		for _, log := range l.logs {
			log.size, log.next = 0, time.Time{}.Add(1) // it grew
		}
		l.runDue(b.Context(), time.Now())
	}
}
