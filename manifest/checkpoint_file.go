package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podstead/podstead/internal/statefile"
)

// checkpointFormat is the file. A source reads its manifests again without it, and running pods are recognized by
// their UIDs.
var checkpointFormat = statefile.Format[checkpointState]{
	Name: "checkpoint/manifests.json", Version: checkpointVersion, Limit: 128 << 20, Damaged: statefile.MoveAside,
	Newer: statefile.MoveAside, DirMode: 0o700,
	Encode: func(s checkpointState) ([]byte, error) {
		data, err := json.Marshal(&s)
		return append(data, '\n'), err
	},
	Decode: func(data []byte) (checkpointState, error) {
		s := newCheckpointState()
		err := json.Unmarshal(data, &s)
		return s, err
	},
	Check: (*checkpointState).check,
}

// load reads the file if it exists.
func (c *Checkpoint) load() error {
	if err := c.prepareDirectory(); err != nil {
		c.log.Warn("Failed to prepare the directory of the manifest checkpoint", "checkpoint", c.path, "err", err)
	}
	state, err := c.file.Load()
	switch {
	case err == nil:
		c.state = state
	case errors.Is(err, fs.ErrNotExist):
		// Either this is the first start, or the root directory was removed
		// while pods were running: a manifest that is invalid now may belong to
		// one of them.
		c.state.Lost = true
	case errors.Is(err, statefile.ErrDamaged):
		c.lose("is damaged", err)
	case errors.Is(err, statefile.ErrNewer):
		c.lose("was written by a newer podstead", err)
	default:
		return fmt.Errorf("cannot read the checkpoint: %w", err)
	}
	return nil
}

// prepareDirectory creates the directory, and restricts it to root: the checkpoint
// contains Secrets, and so do the files that are moved aside.
func (c *Checkpoint) prepareDirectory() error {
	dir := filepath.Dir(c.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm() == 0o700 {
		return nil // a read-only file system does not allow to set it again
	}
	return os.Chmod(dir, 0o700)
}

// lose notes that there was a file that cannot be used.
func (c *Checkpoint) lose(what string, reason error) {
	// Written with the next set, so that a restart does not forget it.
	c.state.Lost = true
	c.changes++
	c.log.Warn("Manifest checkpoint "+what+": manifests that are invalid now have no last good revision; "+
		"their running pods are left alone until each manifest is fixed or removed",
		"checkpoint", c.path, "reason", reason, "movedTo", statefile.MovedTo(reason))
}

// check finds what JSON decoding accepts but the rest of the package does not
// expect.
func (s *checkpointState) check() error {
	if s.Sources == nil || s.Claims == nil {
		return errors.New("a required field is missing")
	}
	for source, record := range s.Sources {
		if record.Units == nil {
			record.Units = map[string]unitRecord{}
			s.Sources[source] = record
		}
		for name, unit := range record.Units {
			revisions := []*unitRevision{&unit.unitRevision}
			if unit.Previous != nil {
				revisions = append(revisions, unit.Previous)
			}
			for _, revision := range revisions {
				for i := range revision.Documents {
					if pod := revision.Documents[i].Pod; pod == nil || pod.UID == "" || pod.Name == "" {
						return fmt.Errorf("document %d of %s is not a pod", i+1, name)
					}
				}
				for i := range revision.Objects {
					if revision.Objects[i].Ref().Name == "" {
						return fmt.Errorf("object %d of %s is empty", i+1, name)
					}
				}
			}
		}
	}
	return nil
}

// Save writes the checkpoint if it changed since it was last written. The error
// is logged once until it changes, and stays available as Fault.
func (c *Checkpoint) Save() error {
	if c.path == "" {
		return nil
	}
	c.saving.Lock()
	defer c.saving.Unlock()

	c.mu.Lock()
	changes := c.changes
	if changes == c.saved {
		c.mu.Unlock()
		return nil
	}
	state := c.state.clone()
	c.mu.Unlock()
	err := c.file.Save(state)
	c.disk.Unwritten.Report(c.path, err)

	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.saveErr
	c.saveErr = err
	switch {
	case err == nil:
		c.saved = changes
		if before != nil {
			c.log.Info("Manifest checkpoint is writable again", "checkpoint", c.path)
		}
	case before == nil || before.Error() != err.Error():
		c.log.Error("Failed to write manifest checkpoint, retrying; pods keep running, but a restart would use the "+
			"previous checkpoint", "checkpoint", c.path, "err", err)
	}
	return err
}

// Fault returns why the checkpoint could not be written, nil if it could.
func (c *Checkpoint) Fault() *Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.saveErr == nil {
		return nil
	}
	return &Fault{
		Unit:    c.path,
		Problem: "the checkpoint cannot be written: " + c.saveErr.Error(),
		Remedy: "make sure that the file system is writable and has free space; pods keep running, but their last good " +
			"manifests would be lost at a restart",
		Warning: true,
	}
}
