package containerlog

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
)

type null struct{ io.Writer }

func (null) Flush() error { return nil }

// The target for reading a log with lines of ordinary length is 100 MB/s.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	text := strings.Repeat(full(1, "stdout", strings.Repeat("x", 60))+full(2, "stderr", "y"), 100_000)
	write(b, filepath.Join(dir, "0.log"), text)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s, err := Open(b.Context(), Request{Dir: dir, Options: Options{Tail: -1}})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Copy(b.Context(), null{io.Discard}); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}
