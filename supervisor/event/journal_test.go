package event

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
	"github.com/podstead/podstead/internal/unwritten"
)

// openJournal returns a recorder on a directory, for which the test data does not become too old.
func openJournal(dir string, disk statefile.Disk) *Recorder {
	return New(Config{Node: "node", File: filepath.Join(dir, "journal.jsonl"), Disk: disk,
		MaxAge: 100 * 365 * 24 * time.Hour})
}

// The journal loses at most what was appended last, also where it is rewritten because its last line is torn.
func TestJournalFile(t *testing.T) {
	for name, before := range map[string]string{"append": "journal.jsonl", "rewrite": "journal-torn.jsonl"} {
		t.Run(name, func(t *testing.T) {
			statefiletest.Store{
				Files: []string{"journal.jsonl"}, Before: before,
				Old: "Node/Starting×1 Pod/Started×2", New: "Node/Starting×1 Pod/Started×3", None: "",
				Rules: statefiletest.RulesOf(&statefile.Format[[]byte]{Damaged: statefile.MoveAside,
					Durability: statefile.Atomic}),
				Tolerant: true, Silent: true,
				Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
					return summary(openJournal(dir, disk)), nil
				},
				Change: func(t *testing.T, dir string, disk statefile.Disk) error {
					r := openJournal(dir, disk)
					r.Event(pod("u1"), "Normal", "Started", "Started container web")
					ctx, cancel := context.WithCancel(t.Context())
					cancel()
					_ = r.Run(ctx) // writes what is left
					return nil
				},
			}.Run(t)
		})
	}
}

// What could not be appended or rewritten is reported, and written when the disk takes it.
func TestJournalIsWrittenWhenTheDiskRecovers(t *testing.T) {
	for _, reason := range []error{syscall.ENOSPC, syscall.EROFS} {
		for _, before := range []string{"journal.jsonl", "journal-torn.jsonl"} {
			synctest.Test(t, func(t *testing.T) {
				dir, files := t.TempDir(), unwritten.New()
				data, err := os.ReadFile(filepath.Join("testdata", before))
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, "journal.jsonl"), data, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				disk := statefiletest.New(dir, statefiletest.Fails, 1)
				disk.Err = reason
				r := openJournal(dir, statefile.Disk{Operations: disk, Unwritten: files})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- r.Run(ctx) }()
				r.Event(pod("u1"), "Normal", "Started", "Started container web")
				time.Sleep(2 * writeSoon)
				if list := files.List(); len(list) != 1 || !errors.Is(list[0].Err, reason) {
					t.Errorf("reported: %v", list)
				}
				time.Sleep(writeRetry + writeGap)
				if got, want := summary(openJournal(dir, statefile.Disk{})), "Node/Starting×1 Pod/Started×3"; got != want ||
					len(files.List()) > 0 {
					t.Errorf("after the disk has recovered there is %s, want %s; reported: %v", got, want, files.List())
				}
				cancel()
				<-ended
			})
		}
	}
}
