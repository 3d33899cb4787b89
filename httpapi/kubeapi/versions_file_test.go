package kubeapi

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestVersionsFile(t *testing.T) {
	path := func(dir string) string { return filepath.Join(dir, "resource-version") }
	statefiletest.Store{
		Files: []string{"resource-version"}, Before: "resource-version.before", After: "resource-version.after",
		Old: "123456789", New: "124505365", None: "0", Rules: statefiletest.RulesOf(&boundFormat), Silent: true,
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			bound, _ := boundFormat.File(path(dir), disk).Load()
			return fmt.Sprint(bound), nil
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			OpenVersions(path(dir), disk)
			return nil
		},
	}.Run(t)
}
