package containerlog

import (
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pack compresses a file as the rotation does.
func pack(t testing.TB, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path + ".gz.tmp")
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	if _, err = z.Write(text); err == nil {
		err = z.Close()
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Chtimes(path+".gz.tmp", info.ModTime(), info.ModTime())
	}
	if err == nil {
		err = os.Rename(path+".gz.tmp", path+".gz")
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func rotatedPath(dir string, n int) string {
	return filepath.Join(dir, fmt.Sprintf("0.log.20260131-12%02d00.000", n))
}

// A rotated log, and each tail of it, reads like a single file, whether files are compressed
// or not, and even if a partial line is split between files.
func TestRotatedLogReadsAsOne(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		var messages, lines []string
		for i := range 3 + r.IntN(20) {
			text := ""
			for range r.IntN(3) {
				part := fmt.Sprintf("part-%d-%d ", i, len(messages))
				messages = append(messages, piece(i, "stdout", part))
				text += part
			}
			end := strings.Repeat("x", r.IntN(200))
			messages = append(messages, full(i, "stdout", end))
			lines = append(lines, text+end+"\n")
		}
		if r.IntN(3) == 0 { // the last line has no end
			messages = append(messages, piece(59, "stdout", "prompt> "))
			lines = append(lines, "prompt> ")
		}
		dir := t.TempDir()
		last := filepath.Join(dir, "0.log")
		write(t, last, "")
		for n := 0; len(messages) > 0; n++ {
			count := min(r.IntN(6), len(messages))
			path := rotatedPath(dir, n)
			if n == 8 || r.IntN(8) == 0 {
				path, count = last, len(messages)
			}
			write(t, path, strings.Join(messages[:count], ""))
			messages = messages[count:]
			when := time.Unix(int64(1000+n), 0)
			if err := os.Chtimes(path, when, when); err != nil {
				t.Fatal(err)
			}
			if path != last && r.IntN(2) == 0 {
				pack(t, path)
			}
		}
		for n := -1; n <= len(lines)+1; n++ {
			want := strings.Join(lines, "")
			if n >= 0 {
				want = strings.Join(lines[max(0, len(lines)-n):], "")
			}
			if got := read(t, dir, 0, Options{Tail: int64(n)}); got != want {
				t.Fatalf("seed %d, tail %d of %d: got %q, want %q", seed, n, len(lines), got, want)
			}
		}
	}
}

func TestOldFilesAreNotOpened(t *testing.T) {
	dir := t.TempDir()
	write(t, rotatedPath(dir, 1), "no file of compressed lines")
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(rotatedPath(dir, 1), long, long); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(rotatedPath(dir, 1), rotatedPath(dir, 1)+".gz"); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Format(time.RFC3339Nano)
	write(t, filepath.Join(dir, "0.log"), now+" stdout F new\n")
	if got := read(t, dir, 0, Options{Tail: -1, Since: time.Now().Add(-time.Minute)}); got != "new\n" {
		t.Errorf("got %q", got)
	}
}

// A damaged compressed file does not hide later lines.
func TestDamagedCompressedFile(t *testing.T) {
	whole := t.TempDir()
	write(t, rotatedPath(whole, 1), full(1, "stdout", "a")+full(2, "stdout", strings.Repeat("b", 5000)))
	pack(t, rotatedPath(whole, 1))
	data, err := os.ReadFile(rotatedPath(whole, 1) + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"cut": data[:len(data)-10], "empty": nil,
		"junk": []byte("junk junk junk"), "zeros": make([]byte, 100)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(rotatedPath(dir, 1)+".gz", content, 0o600); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "0.log"), full(3, "stdout", "new"))
			for _, tail := range []int64{-1, 1, 2, 100} {
				if got := read(t, dir, 0, Options{Tail: tail}); !strings.HasSuffix(got, "new\n") {
					t.Errorf("tail %d: got %q", tail, got)
				}
			}
		})
	}
}

// A follower misses nothing if its current file and the next ones are compressed.
func TestFollowOverCompressedFiles(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "0.log")
	write(t, log, full(1, "stdout", "1"))
	f := follow(t, dir, 0, Options{Tail: -1})
	f.await(t, "1\n")
	f.gate = make(chan struct{}) // the client takes nothing
	want := "1\n"
	for n := 2; n <= 6; n++ {
		line := fmt.Sprint(n)
		write(t, log, full(n, "stdout", line))
		want += line + "\n"
		when := time.Unix(int64(1000+n), 0)
		if err := os.Chtimes(log, when, when); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(log, rotatedPath(dir, n)); err != nil {
			t.Fatal(err)
		}
		write(t, log, "")
	}
	for n := 2; n <= 5; n++ {
		pack(t, rotatedPath(dir, n))
	}
	write(t, log, full(7, "stdout", "7"))
	close(f.gate)
	f.await(t, want+"7\n")
}

// oldWriter rotates a log and returns the runtime's writer of the old file, which is not
// finished yet.
func oldWriter(t *testing.T, dir string, n int) *os.File {
	t.Helper()
	log := filepath.Join(dir, "0.log")
	old, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = old.Close() })
	if err := os.Rename(log, rotatedPath(dir, n)); err != nil {
		t.Fatal(err)
	}
	return old
}

// After the new file was created, the runtime may still write the last lines to the old one:
// containerd's old writer drains concurrently with the new one, however long a busy disk
// delays it, and ends with the rest of an incomplete line.
func TestFollowWaitsForLastLinesOfOldFile(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "0.log")
	write(t, log, full(1, "stdout", "1"))
	f := follow(t, dir, 0, Options{Tail: -1})
	f.await(t, "1\n")
	write(t, log, full(2, "stdout", "2"))
	old := oldWriter(t, dir, 1)
	write(t, log, full(5, "stdout", "end")+full(5, "stdout", "5"))
	last := full(4, "stdout", "and more")
	for _, text := range []string{full(3, "stdout", "3"), full(4, "stdout", "4"), last[:len(last)/2], last[len(last)/2:],
		piece(4, "stdout", "begin and ")} {
		time.Sleep(2 * unknownWriterTimeout) // it is about time
		if _, err := old.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * unknownWriterTimeout)
	f.await(t, "1\n2\n")
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	f.await(t, "1\n2\n3\n4\nand more\nbegin and end\n5\n")
}

// The log is rotated again while a follower still waits for the old file: the file with which
// it continues has another name then.
func TestFollowOverRotationsWhileWaiting(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "0.log")
	write(t, log, full(1, "stdout", "1"))
	f := follow(t, dir, 0, Options{Tail: -1})
	f.await(t, "1\n")
	want := "1\n"
	first := oldWriter(t, dir, 1)
	for n := 2; n < 6; n++ {
		write(t, log, full(n, "stdout", fmt.Sprint(n)))
		want += fmt.Sprintln(n)
		time.Sleep(unknownWriterTimeout / 3) // so that the reader has looked
		if err := oldWriter(t, dir, n).Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(t, log, full(6, "stdout", "6"))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	f.await(t, want+"6\n")
}

// Reading without following returns a line that is split by a rotation in progress as one,
// and a tail of the requested length.
func TestReadWaitsForLastLinesOfOldFile(t *testing.T) {
	for tail, want := range map[int64]string{-1: "1\n2\nbegin and end\n4\n", 2: "begin and end\n4\n",
		3: "2\nbegin and end\n4\n"} {
		dir := t.TempDir()
		log := filepath.Join(dir, "0.log")
		write(t, log, full(1, "stdout", "1"))
		old := oldWriter(t, dir, 1)
		write(t, log, full(3, "stdout", "end")+full(4, "stdout", "4"))
		time.AfterFunc(2*unknownWriterTimeout, func() {
			_, _ = old.WriteString(full(2, "stdout", "2") + piece(3, "stdout", "begin and "))
			_ = old.Close()
		})
		if got := read(t, dir, 0, Options{Tail: tail}); got != want {
			t.Errorf("tail %d: got %q, want %q", tail, got, want)
		}
	}
}
