package containerlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience is the timeout of tests.
const patience = 3 * time.Minute

// at returns the time of the n-th line.
func at(n int) string {
	return time.Date(2026, 1, 31, 12, 0, n, 5000, time.UTC).Format(time.RFC3339Nano)
}

// full and piece return lines as containerd writes them.
func full(n int, stream, text string) string {
	return fmt.Sprintf("%s %s F %s\n", at(n), stream, text)
}
func piece(n int, stream, text string) string {
	return fmt.Sprintf("%s %s P %s\n", at(n), stream, text)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

type buffer struct{ bytes.Buffer }

func (*buffer) Flush() error { return nil }

// read prints a log without following.
func read(t *testing.T, dir string, n int, o Options) string {
	t.Helper()
	s, err := Open(t.Context(), Request{Dir: dir, Instance: n, Options: o})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var b buffer
	if err := s.Copy(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRead(t *testing.T) {
	all := Options{Tail: -1}
	with := func(edit func(*Options)) Options { o := all; edit(&o); return o }
	three := full(1, "stdout", "one") + full(2, "stderr", "two") + full(3, "stdout", "three")
	broken := full(1, "stdout", "a") + piece(2, "stdout", "b") + piece(3, "stdout", "c") + full(4, "stdout", "d") +
		full(5, "stdout", "e")
	since, err := time.Parse(time.RFC3339Nano, at(2))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file string
		o          Options
		want       string
	}{
		{"all", three, all, "one\ntwo\nthree\n"},
		{"empty file", "", all, ""},
		{"empty line", full(1, "stdout", "") + full(2, "stdout", "x"), all, "\nx\n"},
		{"line of spaces", full(1, "stdout", "  x "), all, "  x \n"},
		{"more tags", at(1) + " stdout F:future x\n", all, "x\n"},
		{"timestamps", three, with(func(o *Options) { o.Timestamps = true }),
			at(1) + " one\n" + at(2) + " two\n" + at(3) + " three\n"},
		{"since", three, with(func(o *Options) { o.Since = since }), "two\nthree\n"},
		{"since later than all", three, with(func(o *Options) { o.Since = since.Add(time.Hour) }), ""},
		{"limit", three, with(func(o *Options) { o.Limit = 5 }), "one\nt"},
		{"limit beyond the end", three, with(func(o *Options) { o.Limit = 500 }), "one\ntwo\nthree\n"},
		{"tail 0", three, with(func(o *Options) { o.Tail = 0 }), ""},
		{"tail 1", three, with(func(o *Options) { o.Tail = 1 }), "three\n"},
		{"tail 3", three, with(func(o *Options) { o.Tail = 3 }), "one\ntwo\nthree\n"},
		{"tail of more", three, with(func(o *Options) { o.Tail = 4 }), "one\ntwo\nthree\n"},
		{"pieces are one line", broken, all, "a\nbcd\ne\n"},
		{"tail counts no pieces", broken, with(func(o *Options) { o.Tail = 2 }), "bcd\ne\n"},
		{"one time for a line in pieces", broken, with(func(o *Options) { o.Tail, o.Timestamps = 2, true }),
			at(2) + " bcd\n" + at(5) + " e\n"},
		{"a line in pieces is as old as its first", broken, with(func(o *Options) { o.Since = since.Add(time.Second) }),
			"e\n"},
		{"streams do not mix in a line", piece(1, "stdout", "o1") + full(2, "stderr", "err") + full(3, "stdout", "o2"), all,
			"err\no1o2\n"},
		{"no end of the line", full(1, "stdout", "a") + piece(2, "stdout", "prompt> "), all, "a\nprompt> "},
		{"tail of a line without end", full(1, "stdout", "a") + piece(2, "stdout", "b"),
			with(func(o *Options) { o.Tail = 1 }), "b"},
		{"two lines without end", piece(1, "stdout", "a") + piece(2, "stderr", "b"), all, "a\nb"},
		{"torn file", full(1, "stdout", "a") + at(2) + " stdout F half", all, "a\nhalf"},
		{"torn head", full(1, "stdout", "a") + at(2) + " std", all, "a\n"},
		{"what is no line", "garbage\n\n\x00\x00\n" + full(1, "stdout", "a") + "x y z w\n" + at(1) + " stdin F a\n" + at(1) +
			" stdout Q a\n", all, "a\n"},
		{"docker", `{"log":"a\u003c\n","stream":"stdout","time":"` + at(1) + `"}` + "\n" +
			`{"log":"b","stream":"stderr","time":"` + at(2) + `"}` + "\n" + `{"log":"c\n","stream":"stderr","time":"` + at(2) +
			`"}` + "\n{junk\n", with(func(o *Options) { o.Timestamps = true }), at(1) + " a<\n" + at(2) + " bc\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "0.log"), c.file)
			if got := read(t, dir, 0, c.o); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Lines longer than every buffer are printed whole and in order.
func TestLongLines(t *testing.T) {
	for _, size := range []int{readBuffer - 50, readBuffer, maxBuffered + 1, maxLine, 3*maxLine + 17} {
		dir := t.TempDir()
		long := strings.Repeat("0123456789", size/10+1)[:size]
		write(t, filepath.Join(dir, "0.log"), full(1, "stdout", "a")+full(2, "stdout", long)+full(3, "stdout", "z"))
		if got := read(t, dir, 0, Options{Tail: -1}); got != "a\n"+long+"\nz\n" {
			t.Errorf("a line of %d bytes: got %d bytes", size, len(got))
		}
		if got := read(t, dir, 0, Options{Tail: 2}); got != long+"\nz\n" {
			t.Errorf("tail over a line of %d bytes: got %d bytes", size, len(got))
		}
	}
}

// counting counts the bytes that are read.
type counting struct {
	io.ReaderAt
	n int64
}

func (c *counting) ReadAt(b []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(b, at)
	c.n += int64(n)
	return n, err
}

func TestTailReadsFromTheEnd(t *testing.T) {
	var b strings.Builder
	var lines []string
	for i := 0; b.Len() < 8<<20; i++ {
		text := fmt.Sprintf("line %d %s", i, strings.Repeat("x", i%300))
		if i%7 == 0 {
			b.WriteString(piece(i%60, "stdout", text))
			b.WriteString(full(i%60, "stdout", " on"))
			text += " on"
		} else {
			b.WriteString(full(i%60, "stdout", text))
		}
		lines = append(lines, text)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "0.log"), b.String())
	for _, n := range []int{1, 2, 10, 333, 5000, len(lines) - 1, len(lines), len(lines) + 1} {
		want := strings.Join(lines[max(0, len(lines)-n):], "\n") + "\n"
		if got := read(t, dir, 0, Options{Tail: int64(n)}); got != want {
			t.Errorf("tail %d: got %d bytes, want %d", n, len(got), len(want))
		}
	}
	c := &counting{ReaderAt: strings.NewReader(b.String())}
	if _, _, err := tailOffset(c, int64(b.Len()), 10, false); err != nil || c.n > 3*tailBlock {
		t.Errorf("10 lines cost %d bytes of %d (%v)", c.n, b.Len(), err)
	}
}

func TestInstances(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"3.log", "10.log", "10.log.20260131-120000", "2.log.20260131-120000",
		"1.log.20260101-000000.gz", "x.log", "-1.log", "4.txt", "5.log.20260101-000000.gz.tmp"} {
		write(t, filepath.Join(dir, name), "")
	}
	got, err := Instances(dir)
	if err != nil || fmt.Sprint(got) != "[1 2 3 10]" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := Instances(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if _, err := Open(t.Context(), Request{Dir: dir, Instance: 7}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no log: %v", err)
	}
}

// Between the two steps of a rotation the newest rotated file is the log.
func TestReadDuringRotation(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "0.log.20260131-110000"), full(1, "stdout", "old"))
	write(t, filepath.Join(dir, "0.log.20260131-120000"), full(2, "stdout", "new"))
	if got := read(t, dir, 0, Options{Tail: -1}); got != "old\nnew\n" {
		t.Errorf("got %q", got)
	}
}

// sink collects what a follower prints.
type sink struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{}
	// gate, if not nil, blocks each write until a value can be received from it.
	gate chan struct{}
}

func (s *sink) Write(b []byte) (int, error) {
	if s.gate != nil {
		<-s.gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(b)
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (*sink) Flush() error { return nil }

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *sink) await(t *testing.T, want string) {
	t.Helper()
	timeout := time.After(patience)
	for {
		if got := s.String(); got == want {
			return
		} else if !strings.HasPrefix(want, got) {
			t.Fatalf("got …%q, want …%q", got[max(0, len(got)-80):], want[max(0, len(want)-80):])
		}
		select {
		case <-s.changed:
		case <-timeout:
			got := s.String()
			t.Fatalf("got …%q, want …%q", got[max(0, len(got)-80):], want[max(0, len(want)-80):])
		}
	}
}

// follower follows a log in the background.
type follower struct {
	*sink
	ended  atomic.Bool
	change chan struct{}
	done   chan error
	cancel context.CancelFunc
}

func follow(t *testing.T, dir string, n int, o Options) *follower {
	t.Helper()
	return followTo(t, &sink{changed: make(chan struct{}, 1)}, dir, n, o)
}

func followTo(t *testing.T, to *sink, dir string, n int, o Options) *follower {
	t.Helper()
	f := &follower{sink: to, change: make(chan struct{}, 1), done: make(chan error, 1)}
	s, err := Open(t.Context(), Request{Dir: dir, Instance: n, Options: o,
		Follow: &Follow{Ended: f.ended.Load, Changed: f.change}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.cancel = cancel
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		f.done <- s.Copy(ctx, f.sink)
	}()
	t.Cleanup(func() {
		cancel()
		<-stopped
		s.Close()
	})
	return f
}

// end reports that the container will not restart, and waits for the end of the stream.
func (f *follower) end(t *testing.T) error {
	t.Helper()
	f.ended.Store(true)
	f.change <- struct{}{}
	return f.wait(t)
}

func (f *follower) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-f.done:
		return err
	case <-time.After(patience):
		t.Fatal("the stream does not end")
		return nil
	}
}

func TestFollowGrowingFile(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "0.log")
	write(t, log, full(1, "stdout", "a")+full(2, "stdout", "b"))
	f := follow(t, dir, 0, Options{Tail: 1})
	f.await(t, "b\n")
	write(t, log, full(3, "stdout", "c")+at(4)+" stdo")
	f.await(t, "b\nc\n")
	write(t, log, "ut F d\n"+piece(5, "stdout", "e"))
	f.await(t, "b\nc\nd\n")
	write(t, log, full(6, "stdout", "f"))
	f.await(t, "b\nc\nd\nef\n")
	f.cancel()
	if err := f.wait(t); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled stream ends with %v", err)
	}
}

func TestFollowEndsWithTheContainer(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "0.log")
	write(t, log, full(1, "stdout", "a"))
	f := follow(t, dir, 0, Options{Tail: -1})
	f.await(t, "a\n")
	write(t, log, piece(2, "stdout", "last words"))
	if err := f.end(t); err != nil || f.String() != "a\nlast words" {
		t.Errorf("got %q, %v", f.String(), err)
	}
}

func TestFollowLimit(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "0.log"), full(1, "stdout", "a"))
	f := follow(t, dir, 0, Options{Tail: -1, Limit: 5})
	f.await(t, "a\n")
	write(t, filepath.Join(dir, "0.log"), full(1, "stdout", "bcdefg"))
	if err := f.wait(t); err != nil || f.String() != "a\nbcd" {
		t.Errorf("got %q, %v", f.String(), err)
	}
}

func TestFollowRotation(t *testing.T) {
	dir := t.TempDir()
	log, old := filepath.Join(dir, "0.log"), filepath.Join(dir, "0.log.20260131-120000")
	write(t, log, full(1, "stdout", "a"))
	f := follow(t, dir, 0, Options{Tail: -1})
	f.await(t, "a\n")
	runtime, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.Close()
	if err := os.Rename(log, old); err != nil {
		t.Fatal(err)
	}
	write(t, old, full(2, "stdout", "b")) // the runtime has it open still
	f.await(t, "a\nb\n")
	write(t, log, "")
	write(t, old, piece(3, "stdout", "c")) // and writes its last there
	write(t, log, full(4, "stdout", "d"))
	if err := runtime.Close(); err != nil {
		t.Fatal(err)
	}
	f.await(t, "a\nb\ncd\n")
	// Another rotation, and the old files are compressed and removed.
	if err := os.Rename(log, filepath.Join(dir, "0.log.20260131-130000")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(old); err != nil {
		t.Fatal(err)
	}
	write(t, log, full(5, "stdout", "e"))
	f.await(t, "a\nb\ncd\ne\n")
	if err := f.end(t); err != nil {
		t.Error(err)
	}
}

func TestFollowTruncation(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "0.log")
	write(t, log, full(1, "stdout", "aaaaaaaaaaaaaaaaaaaaaa"))
	f := follow(t, dir, 0, Options{Tail: -1})
	f.await(t, "aaaaaaaaaaaaaaaaaaaaaa\n")
	if err := os.WriteFile(log, []byte(full(2, "stdout", "b")), 0o600); err != nil {
		t.Fatal(err)
	}
	f.await(t, "aaaaaaaaaaaaaaaaaaaaaa\nb\n")
}

func TestFollowRestarts(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "3.log"), full(1, "stdout", "a"))
	f := follow(t, dir, 3, Options{Tail: -1})
	f.await(t, "a\n")
	write(t, filepath.Join(dir, "3.log"), piece(2, "stdout", "killed here"))
	write(t, filepath.Join(dir, "4.log"), full(3, "stdout", "b"))
	f.await(t, "a\nkilled here\nb\n")
	// Instance 5 could not start and has an empty log or none.
	write(t, filepath.Join(dir, "5.log"), "")
	write(t, filepath.Join(dir, "7.log"), full(4, "stdout", "c"))
	f.await(t, "a\nkilled here\nb\nc\n")
	if err := f.end(t); err != nil {
		t.Error(err)
	}
}

// The directory of a removed pod is deleted first; the stream ends when Ended reports it.
func TestFollowRemovedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "web")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "0.log"), full(1, "stdout", "a"))
	f := follow(t, dir, 0, Options{Tail: -1})
	f.await(t, "a\n")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := f.end(t); err != nil || f.String() != "a\n" {
		t.Errorf("got %q, %v", f.String(), err)
	}
}

// A client that does not read blocks only its own stream, and loses nothing if the log is
// rotated twice in the meantime.
func TestSlowReader(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "0.log")
	write(t, log, full(0, "stdout", "start"))
	slow := followTo(t, &sink{changed: make(chan struct{}, 1), gate: make(chan struct{})}, dir, 0, Options{Tail: -1})
	quick := follow(t, dir, 0, Options{Tail: -1})
	want := "start\n"
	quick.await(t, want)
	for round := range 3 {
		for i := range 500 {
			line := fmt.Sprintf("%d %d", round, i)
			write(t, log, full(i%60, "stdout", line))
			want += line + "\n"
		}
		quick.await(t, want)
		if round < 2 {
			if err := os.Rename(log, fmt.Sprintf("%s.20260131-12000%d", log, round)); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(slow.gate)
	slow.await(t, want)
}

// The last lines of a container that has exited are waited for while its runtime has the file open.
func TestReadWaitsForTheRuntime(t *testing.T) {
	for name, follow := range map[string]*Follow{"read": nil, "follow": {Ended: func() bool { return true }}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			log := filepath.Join(dir, "0.log")
			write(t, log, full(1, "stdout", "before the last"))
			runtime, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(endTimeout/20, func() {
				_, _ = runtime.WriteString(full(2, "stderr", "the last"))
				_ = runtime.Close()
			})
			s, err := Open(t.Context(), Request{Dir: dir, Ended: true, Follow: follow, Options: Options{Tail: 1}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var b buffer
			if err := s.Copy(t.Context(), &b); err != nil || !strings.HasSuffix(b.String(), "the last\n") {
				t.Errorf("got %q, %v", b.String(), err)
			}
		})
	}
}
