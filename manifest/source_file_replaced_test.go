package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Whatever takes the place of the manifest directory, no pod ends, neither now nor after a
// restart, as long as it does not contain a valid manifest.
func TestFileSourceReplacedDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		replace func(b *fileHarness) error
		fault   string
	}{
		"a valid manifest": {func(b *fileHarness) error { return os.WriteFile(b.directory, []byte("c 1"), 0o644) },
			"and is now a file"},
		"an empty file": {func(b *fileHarness) error { return os.WriteFile(b.directory, nil, 0o644) },
			"and is now a file"},
		"a named pipe": {func(b *fileHarness) error { return syscall.Mkfifo(b.directory, 0o644) },
			"and is now a named pipe"},
		"a link to a device": {func(b *fileHarness) error { return os.Symlink("/dev/null", b.directory) },
			"and is now a device"},
		"a link to nothing": {func(b *fileHarness) error { return os.Symlink("/nonexistent", b.directory) },
			"does not exist"},
		"a link to itself": {func(b *fileHarness) error { return os.Symlink(b.directory, b.directory) },
			"cannot be read"},
		"an empty directory": {func(b *fileHarness) error { return os.Mkdir(b.directory, 0o755) },
			"was replaced by a directory without manifests"},
		"an invalid manifest": {func(b *fileHarness) error { return b.directoryWith("z.yaml", "broken") },
			"was replaced by a directory without a valid manifest"},
		"the same, but broken": {func(b *fileHarness) error { return b.directoryWith("a.yaml", "broken") },
			"was replaced by a directory without a valid manifest"},
		"an unreadable manifest": {func(b *fileHarness) error {
			if err := os.Mkdir(b.directory, 0o755); err != nil {
				return err
			}
			return syscall.Mkfifo(b.path("a.yaml"), 0o644)
		}, "was replaced by a directory without a valid manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFileHarness(t)
			b.write("a.yaml", "a 1")
			b.write("b.yaml", "b 1")
			b.start()
			b.sink.awaitPods("a=1", "b=1")
			aside := b.directory + "-aside"
			b.must(os.Rename(b.directory, aside))
			b.must(c.replace(b))
			b.sink.awaitFault(c.fault)
			b.wantLog("ADD file a=1 b=1")
			b.start()
			set := b.sink.awaitFault(c.fault)
			if !set.Restored || len(set.Units) != 2 {
				t.Errorf("set is %+v", set)
			}
			b.wantLog("RESTORE file a=1 b=1")
			// The directory returns, and one file was removed in the meantime.
			b.must(os.RemoveAll(b.directory))
			b.must(os.Remove(filepath.Join(aside, "b.yaml")))
			b.must(os.Rename(aside, b.directory))
			b.sink.awaitPods("a=1")
		})
	}
}

func (b *fileHarness) directoryWith(name, script string) error {
	if err := os.Mkdir(b.directory, 0o755); err != nil {
		return err
	}
	return os.WriteFile(b.path(name), []byte(script), 0o644)
}

// Another directory with a valid manifest is what the user wants now.
func TestFileSourceReplacedByValidDirectory(t *testing.T) {
	b := newFileHarness(t)
	b.write("a.yaml", "a 1")
	b.write("b.yaml", "b 1")
	b.start()
	b.sink.awaitPods("a=1", "b=1")
	b.must(os.Rename(b.directory, b.directory+"-aside"))
	b.must(b.directoryWith("a.yaml", "broken"))
	b.sink.awaitFault("was replaced")
	b.write("c.yaml", "c 1")
	b.sink.awaitPods("a=1", "c=1")
	if log := strings.Join(b.sink.model.log, "; "); !strings.Contains(log, "REMOVE file b=1") {
		t.Errorf("updates are %s", log)
	}
}
