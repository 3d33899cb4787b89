package unwritten

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func paths(list []File) (names []string) {
	for _, one := range list {
		names = append(names, one.Path)
	}
	return names
}

// Run repeats what nothing else repeats until it succeeds, and reports each change.
func TestWriteIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := New()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var reported [][]string
		go func() { _ = files.Run(ctx, func(list []File) { reported = append(reported, paths(list)) }) }()

		var full atomic.Bool
		full.Store(true)
		written := 0
		write := func() error {
			if full.Load() {
				return syscall.ENOSPC
			}
			written++
			return nil
		}
		if err := files.Write("/r/b", write); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("Write = %v", err)
		}
		since := files.List()[0].Since
		files.Report("/r/a", syscall.EROFS)
		time.Sleep(3 * retryDelay)
		if got := files.List(); !slices.Equal(paths(got), []string{"/r/a", "/r/b"}) || !got[1].Since.Equal(since) ||
			!errors.Is(got[0].Err, syscall.EROFS) {
			t.Errorf("List = %v", got)
		}
		full.Store(false)
		time.Sleep(retryDelay + time.Second)
		synctest.Wait()
		if written != 1 {
			t.Errorf("written %d times, want once", written)
		}
		if got := paths(files.List()); !slices.Equal(got, []string{"/r/a"}) {
			t.Errorf("List = %v", got)
		}
		files.Report("/r/a", nil)
		synctest.Wait()
		if last := reported[len(reported)-1]; len(last) != 0 {
			t.Errorf("the last report is %v", last)
		}
		// Nothing runs when nothing failed.
		before := len(reported)
		files.Report("/r/a", nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		if written != 1 || len(reported) != before {
			t.Errorf("written %d times, reported %v", written, reported)
		}
	})
}

// A nil *Files records nothing, so that parts of the daemon work without one.
func TestNilFiles(t *testing.T) {
	var files *Files
	files.Report("/r/a", syscall.EROFS)
	if err := files.Write("/r/b", func() error { return syscall.ENOSPC }); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Write = %v", err)
	}
	if got := files.List(); got != nil {
		t.Errorf("List = %v", got)
	}
}
