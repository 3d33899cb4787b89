package containerlog

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
)

// FuzzLines parses arbitrary lines, which a container with its log directory mounted can
// write, finds their tail, and prints them. The tail begins at a line, and no more is printed
// than the limit.
func FuzzLines(f *testing.F) {
	const at = "2026-01-02T03:04:05.678901234Z "
	f.Add([]byte(at+"stdout F one\n"+at+"stderr P two\n"+at+"stderr F three\n"), int64(1), int64(5))
	f.Add([]byte(`{"log":"one\n","stream":"stdout","time":"2026-01-02T03:04:05Z"}`+"\n"+`{"log":"two","stream":"stderr"`),
		int64(2), int64(0))
	f.Add([]byte(at+"stdout P\n"+at+"stdout F:x \n\n\x00 torn"), int64(0), int64(1))
	f.Add([]byte(strings.Repeat(at+"stdout P x\n", 9)), int64(3), int64(7))
	f.Fuzz(func(t *testing.T, data []byte, n, limit int64) {
		n = max(n, 0) // as callers ensure
		for _, continued := range []bool{false, true} {
			offset, lines, err := tailOffset(bytes.NewReader(data), int64(len(data)), n, continued)
			if err != nil || offset < 0 || offset > int64(len(data)) || lines < 0 || lines > n {
				t.Fatalf("tail of %d: offset %d, %d lines, %v", n, offset, lines, err)
			}
			if offset > 0 && offset < int64(len(data)) && data[offset-1] != '\n' {
				t.Fatalf("tail of %d begins within a line, at %d", n, offset)
			}
		}
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		p := newPrinter(w, Options{Limit: limit, Timestamps: n%2 == 0})
		for line := range bytes.Lines(data) {
			m, err := parse(bytes.TrimSuffix(line, []byte{'\n'}))
			if err == nil && p.print(m) != nil {
				break
			}
		}
		_ = p.end()
		_ = w.Flush()
		if limit > 0 && int64(out.Len()) > limit {
			t.Fatalf("printed %d bytes, limit %d", out.Len(), limit)
		}
	})
}
