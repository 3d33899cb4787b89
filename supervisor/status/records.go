package status

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile"
)

// recordVersion is the version of the record file format.
const recordVersion = 1

type recordFile struct {
	Version int `json:"version"`
	Record
}

// recordFormat is the file of a record. It costs history, never a pod.
var recordFormat = statefile.Format[recordFile]{
	Name: "records/UID.json", Version: recordVersion, Limit: 1 << 20, Damaged: statefile.MoveAside,
	Newer:   statefile.MoveAside,
	DirMode: 0o700, Durability: statefile.Atomic, Repeat: true,
}

// Records keeps one small file per pod. A saved record survives a kill of the daemon
// and a power loss: a file is either the old or the new one. It is safe for
// concurrent use if the calls for one UID are in order.
type Records struct {
	files *statefile.Dir[recordFile]
	log   *slog.Logger
}

// OpenRecords uses the directory dir, which the first Save creates with mode 0700 if
// needed. It removes the temporary files of interrupted writes.
func OpenRecords(dir string, disk statefile.Disk, log *slog.Logger) (*Records, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Records{files: recordFormat.Dir(dir, disk), log: log}
	if err := r.files.Clean(); err != nil {
		return nil, fmt.Errorf("failed to open pod records: %w", err)
	}
	return r, nil
}

// Load returns the record of a pod. A missing record is empty; so is a damaged one,
// with a warning in the log.
func (r *Records) Load(uid types.UID) Record {
	f, err := r.files.File(string(uid))
	if err != nil {
		r.log.Warn("Ignoring pod record", "uid", uid, "err", err)
		return Record{}
	}
	file, err := f.Load()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.log.Warn("Pod record is damaged, discarding the history of the pod", "file", f.Path(), "err", err)
	}
	return file.Record
}

// Save writes the record if it differs from what the file holds. A write that failed is repeated.
func (r *Records) Save(uid types.UID, rec Record) error {
	f, err := r.files.File(string(uid))
	if err != nil {
		return fmt.Errorf("invalid pod record: %w", err)
	}
	if err := f.Save(recordFile{Version: recordVersion, Record: rec}); err != nil {
		return fmt.Errorf("failed to write pod record %s: %w", f.Path(), err)
	}
	return nil
}

// Delete deletes the record of a pod; a missing record is no error.
func (r *Records) Delete(uid types.UID) error {
	if err := r.files.Remove(string(uid)); err != nil {
		return fmt.Errorf("failed to remove pod record: %w", err)
	}
	return nil
}

// UIDs returns the pods that have a record, so that records of removed pods can be
// deleted.
func (r *Records) UIDs() ([]types.UID, error) {
	keys, err := r.files.Keys()
	if err != nil {
		return nil, fmt.Errorf("failed to list pod records: %w", err)
	}
	uids := make([]types.UID, len(keys))
	for i, key := range keys {
		uids[i] = types.UID(key)
	}
	return uids, nil
}
