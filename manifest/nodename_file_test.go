package manifest

import (
	"testing"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestNodeNameFile(t *testing.T) {
	resolve := func(dir, flag string, disk statefile.Disk) (string, error) {
		name, _, err := ResolveNodeName(dir, flag, func() (string, error) { return "host", nil }, disk)
		return name, err
	}
	statefiletest.Store{
		Files: []string{nodeNameFile}, Before: "node-name.before", After: "node-name.after",
		Old: "edge-1", New: "edge-2", None: "host", Rules: statefiletest.RulesOf(&nodeNameFormat), Silent: true,
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) { return resolve(dir, "", disk) },
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			// Without --hostname-override, which replaces every file.
			file := nodeNameFormat.File(dir+"/"+nodeNameFile, disk)
			if _, err := file.Load(); err != nil {
				return err
			}
			return file.Save("edge-2")
		},
	}.Run(t)
}
