package userns

import (
	"fmt"
	"testing"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestRangeFile(t *testing.T) {
	store := statefiletest.Store{
		Files: []string{"uid-a/userns"}, Before: "userns.a", After: "userns.a",
		Old: "1922957312", New: "1922957312", None: "1922957312", Rules: statefiletest.RulesOf(&rangeFormat),
		// A pod without a file gets its range, one with a file keeps it.
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			r, err := New(dir, disk).Allocate("uid-a")
			return fmt.Sprint(r.HostID), err
		},
		// Another pod gets another one, and none while that of the first is not known.
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			_, err := New(dir, disk).Allocate("uid-b")
			return err
		},
	}
	store.Run(t)
}
