package manifest

import (
	"fmt"
	"testing"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestCheckpointFile(t *testing.T) {
	statefiletest.Store{
		Files: []string{"manifests.json"}, Before: "checkpoint.before.json", After: "checkpoint.after.json",
		Old: "1", New: "2, before 1", None: "", Rules: statefiletest.RulesOf(&checkpointFormat), Strict: true,
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			cp, err := OpenCheckpoint(dir+"/manifests.json", quietLog(), disk)
			if err != nil {
				return "", err
			}
			unit, ok := cp.accepted(SourceFile, "f")
			if !ok {
				return "", nil
			}
			text := unit.Documents[0].Pod.Spec.Containers[0].Image
			if previous, ok := cp.Previous(SourceFile, "f"); ok {
				text += fmt.Sprint(", before ", previous.Documents[0].Pod.Spec.Containers[0].Image)
			}
			return text, nil
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			cp, err := OpenCheckpoint(dir+"/manifests.json", quietLog(), disk)
			if err != nil {
				return err
			}
			cp.accept(SourceFile, []Unit{scriptUnit("f", "warn\na 2", SourceFile)}, true)
			return cp.Save()
		},
	}.Run(t)
}
