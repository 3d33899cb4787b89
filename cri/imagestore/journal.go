package imagestore

import (
	"errors"
	"io/fs"
	"time"

	"github.com/podstead/podstead/internal/statefile"
)

// journalVersion is the version of the file's format.
const journalVersion = 1

// journalFormat is the file about the pulls and loads in progress: what it names is not sound after a boot. A pull or
// load that it misses counts as complete.
var journalFormat = statefile.Format[journal]{
	Name: "image-additions.json", Version: journalVersion, Limit: 16 << 20, Damaged: statefile.MoveAside,
	Newer: statefile.MoveAside, Repeat: true,
}

type journal struct {
	Version   int        `json:"version"`
	Additions []recorded `json:"additions"`
}

// recorded is a pull or load in the journal.
type recorded struct {
	// Images are the IDs that its names had when it began, empty for a name without an image.
	Images map[string]string `json:"images"`
	// Boot is the ID of the boot in which it began, empty if that was not known.
	Boot  string    `json:"boot"`
	Began time.Time `json:"began"`
}

// Open reads the journal of an earlier daemon, and returns the Store. What was being pulled or loaded in another boot
// is removed by Run; what was in this boot is only synced, since nothing of it is lost.
func Open(cfg Config) *Store {
	s := &Store{
		cfg: cfg, syncFS: syncFS, file: journalFormat.File(cfg.File, cfg.Disk), additions: map[*addition]struct{}{},
		synced: map[string]bool{}, removed: map[string]bool{}, recovered: make(chan struct{}), onRemoved: func(Removal) {},
	}
	found, err := s.file.Load()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		cfg.Log.Warn("Failed to read which images were being pulled or loaded", "file", cfg.File, "err", err)
	}
	for _, r := range found.Additions {
		if r.Boot == cfg.Boot && cfg.Boot != "" {
			a := &addition{recorded: r, done: make(chan struct{})}
			s.additions[a] = struct{}{}
			s.leftover = append(s.leftover, a)
		} else {
			s.interrupted = append(s.interrupted, r)
		}
	}
	if len(s.interrupted) == 0 {
		close(s.recovered)
	}
	return s
}

// save writes the journal. It is repeated if it fails: pods start with images that it misses.
func (s *Store) save() {
	err := s.file.SaveFrom(func() journal {
		s.mu.Lock()
		defer s.mu.Unlock()
		j := journal{Version: journalVersion, Additions: append([]recorded{}, s.interrupted...)}
		for a := range s.additions {
			j.Additions = append(j.Additions, a.recorded)
		}
		return j
	})
	if err != nil {
		s.cfg.Log.Warn("Failed to record which images are being pulled or loaded, retrying", "file", s.cfg.File, "err", err)
	}
}
