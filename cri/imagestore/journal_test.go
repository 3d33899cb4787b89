package imagestore

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestJournalFile(t *testing.T) {
	open := func(dir string, disk statefile.Disk) *Store {
		return Open(Config{File: filepath.Join(dir, "image-additions.json"), Disk: disk, Boot: "2",
			Log: slog.New(slog.DiscardHandler)})
	}
	statefiletest.Store{
		Files: []string{"image-additions.json"}, Before: "image-additions.before.json", After: "image-additions.after.json",
		Old: "[map[web:1:]]", New: "[map[web:1:] map[db:1:sha256:1]]", None: "[]",
		Rules: statefiletest.RulesOf(&journalFormat), Silent: true,
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			s := open(dir, disk)
			var images []map[string]string
			for _, r := range s.interrupted {
				images = append(images, r.Images)
			}
			for _, a := range s.leftover {
				images = append(images, a.Images)
			}
			return fmt.Sprint(images), nil
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			s := open(dir, disk)
			a := &addition{recorded: recorded{
				Images: map[string]string{"db:1": "sha256:1"}, Boot: "2", Began: time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC),
			}}
			s.mu.Lock()
			s.additions[a] = struct{}{}
			s.mu.Unlock()
			s.save()
			return nil
		},
	}.Run(t)
}
