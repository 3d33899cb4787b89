package kubeapi

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/unwritten"
)

// On a disk that takes no file, versions still only increase, also over a restart, and the
// bound is stored when the disk has recovered.
func TestVersionsNotWritable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	path := filepath.Join(dir, "resource-version")
	synctest.Test(t, func(t *testing.T) {
		files := unwritten.New()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = files.Run(ctx, func([]unwritten.File) {}) }()
		v := OpenVersions(path, statefile.Disk{Unwritten: files})
		first := v.Next()
		if list := files.List(); len(list) != 1 || list[0].Path != path {
			t.Errorf("unwritten files: %v", list)
		}
		time.Sleep(time.Second)
		if later := OpenVersions(path, statefile.Disk{}).Next(); later <= first {
			t.Errorf("version %d after %d", later, first)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if list := files.List(); len(list) != 0 {
			t.Errorf("unwritten files after the recovery: %v", list)
		}
		last := v.Next()
		if later := OpenVersions(path, statefile.Disk{}).Next(); later <= last {
			t.Errorf("version %d after %d", later, last)
		}
	})
}
