package manifest

import (
	"os"
	"strings"
	"testing"
)

// A directory or file that others may write is one warning, and its pods run.
func TestFileSourceWarnsOfOtherWriters(t *testing.T) {
	b := newFileHarness(t)
	b.write("a.yaml", "a 1")
	b.write("b.yaml", "b 1")
	b.must(os.Chmod(b.path("b.yaml"), 0o666))
	b.start()
	set := b.sink.await("a warning about b.yaml", func(set Set) bool {
		return set.Fault != nil && set.Fault.Unit == b.path("b.yaml") && len(set.Units) == 2
	})
	if f := *set.Fault; !f.Warning || !strings.Contains(f.Problem, "it has mode 0666") ||
		!strings.Contains(f.Remedy, "chmod go-w") {
		t.Errorf("got %v", f)
	}
	b.must(os.Chmod(b.directory, 0o777))
	b.start()
	b.sink.await("a warning about the directory and the file", func(set Set) bool {
		return set.Fault != nil && set.Fault.Unit == b.directory &&
			strings.Contains(set.Fault.Problem, "so may they change 1 more")
	})
	b.must(os.Chmod(b.directory, 0o755))
	b.must(os.Chmod(b.path("b.yaml"), 0o644))
	b.start()
	b.sink.await("no warning", func(set Set) bool { return set.Fault == nil && len(set.Units) == 2 })
}

func TestClearTextWarning(t *testing.T) {
	for address, want := range map[string]bool{
		"http://pods.example/x": true, "HTTP://10.0.0.1/": true, "https://pods.example/x": false,
		"http://127.0.0.1:8080/x": false, "http://localhost/x": false, "http://[::1]:80/": false, "http://[fd00::1]/": true,
	} {
		fault := clearTextWarning("u", address)
		if (fault != nil) != want || fault != nil && !fault.Warning {
			t.Errorf("%s: %v", address, fault)
		}
	}
}
