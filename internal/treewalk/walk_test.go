package treewalk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// deep makes directories, each in the one before it, with a name of 255 bytes.
func deep(t *testing.T, dir string, levels int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 255)
	for range levels {
		if err := unix.Mkdirat(fd, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(fd)
		fd = next
	}
	_ = unix.Close(fd)
	t.Cleanup(func() {
		// os.RemoveAll holds no path either.
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
}

// descriptors returns how many descriptors the process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestWalk(t *testing.T) {
	dir := t.TempDir()
	outside := t.TempDir()
	for _, path := range []string{"a/b", "c"} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{dir + "/a/file", dir + "/a/b/file", outside + "/file"} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, dir+"/c/link"); err != nil {
		t.Fatal(err)
	}
	var files []string
	directories := 0
	before := descriptors(t)
	err := Walk(t.Context(), dir, &Visitor{
		File: func(_ int, name string, _ *unix.Statx_t) error { files = append(files, name); return nil },
		Dir:  func(int, *unix.Statx_t) error { directories++; return nil },
	})
	slices.Sort(files)
	if err != nil || !slices.Equal(files, []string{"file", "file", "link"}) || directories != 4 {
		t.Errorf("files %v, %d directories, %v", files, directories, err)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors are open, before it %d", after, before)
	}
}

// However deep a tree is, a walk takes the memory and the descriptors of MaxDepth directories, and its error is short.
func TestDeepTree(t *testing.T) {
	dir := t.TempDir()
	deep(t, dir, 4000)
	most := 0
	visitor := &Visitor{
		File: func(int, string, *unix.Statx_t) error { return nil },
		Dir:  func(int, *unix.Statx_t) error { most = max(most, descriptors(t)); return nil },
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := Walk(t.Context(), dir, visitor)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrTooDeep) || !strings.HasPrefix(err.Error(), dir+": ") || len(err.Error()) > 1000 {
		t.Errorf("%.2000v", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("the walk allocated %d bytes", took)
	}
	skipped := 0
	visitor.TooDeep = func() { skipped++ }
	if err := Walk(t.Context(), dir, visitor); err != nil || skipped != 1 {
		t.Errorf("%d directories were not visited, %.1000v", skipped, err)
	}
	if most > MaxDepth+100 {
		t.Errorf("%d descriptors were open", most)
	}
}

// Directories that are removed while they are read are no errors.
func TestWalkOfAChangingTree(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			at := filepath.Join(dir, string(rune('a'+i)))
			for ctx.Err() == nil {
				_ = os.MkdirAll(filepath.Join(at, "b", "c"), 0o755)
				_ = os.RemoveAll(at)
			}
		})
	}
	for range 5000 {
		if err := Walk(ctx, dir, &Visitor{
			File: func(int, string, *unix.Statx_t) error { return nil },
			Dir:  func(int, *unix.Statx_t) error { return nil },
		}); err != nil {
			t.Error(err)
			break
		}
	}
	cancel()
	wg.Wait()
}

// On overlayfs whose layers are different file systems, a file has another device than its directory.
func TestWalkOnOverlay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	for _, name := range []string{"lower", "upper", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount := func(source, name, kind, data string) {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := unix.Mount(source, at, kind, 0, data); err != nil {
			t.Fatalf("failed to mount %s: %v; root needs CAP_SYS_ADMIN, and the kernel overlayfs, as for pods", kind, err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	}
	mount("tmpfs", "lower", "tmpfs", "")
	mount("tmpfs", "upper", "tmpfs", "")
	for _, name := range []string{"lower/dir", "upper/work", "upper/files"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "lower/dir/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mount("overlay", "merged", "overlay",
		"lowerdir="+dir+"/lower,upperdir="+dir+"/upper/files,workdir="+dir+"/upper/work,xino=off")
	files, directories := 0, 0
	err := Walk(t.Context(), filepath.Join(dir, "merged"), &Visitor{
		File: func(int, string, *unix.Statx_t) error { files++; return nil },
		Dir:  func(int, *unix.Statx_t) error { directories++; return nil },
	})
	if err != nil || files != 1 || directories != 2 {
		t.Errorf("%d files, %d directories, %v", files, directories, err)
	}
}

func TestWalkEnds(t *testing.T) {
	dir := t.TempDir()
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(dir, strings.Repeat("x", i%200)+string(rune('a'+i/200))), nil,
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	visited := 0
	err := Walk(ctx, dir, &Visitor{
		File: func(int, string, *unix.Statx_t) error { visited++; cancel(); return nil },
		Dir:  func(int, *unix.Statx_t) error { return errors.New("the directory is incomplete") },
	})
	if !errors.Is(err, context.Canceled) || visited > batch {
		t.Errorf("%d files after the end of the context, %v", visited, err)
	}
	none := func(int, string, *unix.Statx_t) error { return nil }
	if err := Walk(t.Context(), dir, &Visitor{File: none, MaxFiles: 10}); !errors.Is(err, ErrTooMany) {
		t.Errorf("1000 files: %v", err)
	}
	if err := Walk(t.Context(), filepath.Join(dir, "none"), &Visitor{File: none}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	refused := errors.New("refused")
	if err := Walk(t.Context(), dir,
		&Visitor{File: func(int, string, *unix.Statx_t) error { return refused }}); !errors.Is(err, refused) {
		t.Errorf("an error of the visitor: %v", err)
	}
}
