package status

import (
	"fmt"
	"testing"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestRecordFile(t *testing.T) {
	start := func(t *testing.T, dir string, disk statefile.Disk) *Records {
		r, err := OpenRecords(dir, disk, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	statefiletest.Store{
		Files: []string{"u1.json"}, Before: "record.before.json", After: "record.after.json",
		Old: "Evicted 2", New: "Evicted 3", None: " 0", Rules: statefiletest.RulesOf(&recordFormat),
		Read: func(t *testing.T, dir string, disk statefile.Disk) (string, error) {
			rec := start(t, dir, disk).Load("u1")
			return fmt.Sprint(rec.Reason, " ", rec.Runs), nil
		},
		Change: func(t *testing.T, dir string, disk statefile.Disk) error {
			rec := full()
			rec.RestartCounts["web"]++
			rec.Runs++
			return start(t, dir, disk).Save("u1", rec)
		},
	}.Run(t)
}
