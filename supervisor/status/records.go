package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/atomicfile"
	"github.com/podstead/podstead/internal/unwritten"
)

// recordVersion is the version of the record file format. A file of another version
// counts as damaged: it costs history, never a pod.
const recordVersion = 1

// maxRecord bounds a record file, in bytes.
const maxRecord = 1 << 20

type recordFile struct {
	Version int `json:"version"`
	Record
}

// Records keeps one small file per pod. A saved record survives a kill of the daemon
// and a power loss: a file is either the old or the new one. It is safe for
// concurrent use if the calls for one UID are in order.
type Records struct {
	dir   string
	log   *slog.Logger
	files *unwritten.Files

	// writing is held, by UID, while the file of a record is written.
	writing [16]sync.Mutex

	mu      sync.Mutex
	written map[types.UID][]byte // the known content of the file
	pending map[types.UID][]byte // what could not be written
}

// OpenRecords uses the directory dir, which the first Save creates with mode 0700 if
// needed. It removes the temporary files of interrupted writes. files records which
// records could not be written.
func OpenRecords(dir string, log *slog.Logger, files *unwritten.Files) (*Records, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("failed to open pod records: %w", err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), atomicfile.Suffix) {
			// A failure does not matter: the next write replaces the file.
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Records{dir: dir, log: log, files: files, written: map[types.UID][]byte{}, pending: map[types.UID][]byte{}}, nil
}

// Load returns the record of a pod. A missing record is empty; so is a damaged one,
// with a warning in the log.
func (r *Records) Load(uid types.UID) Record {
	path, err := r.path(uid)
	if err != nil {
		r.log.Warn("Ignoring pod record", "uid", uid, "err", err)
		return Record{}
	}
	data, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}
	}
	var file recordFile
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err == nil && file.Version != recordVersion {
		err = fmt.Errorf("version is %d, this daemon supports version %d", file.Version, recordVersion)
	}
	if err != nil {
		r.log.Warn("Pod record is damaged, discarding the history of the pod", "file", path, "err", err)
		return Record{}
	}
	r.remember(uid, data)
	return file.Record
}

// Save writes the record if it differs from what the file holds, with mode
// 0600, fsync and rename. It reports whether it wrote.
func (r *Records) Save(uid types.UID, rec Record) (bool, error) {
	path, err := r.path(uid)
	if err != nil {
		return false, err
	}
	data, err := json.Marshal(recordFile{Version: recordVersion, Record: rec})
	if err != nil {
		return false, fmt.Errorf("failed to write pod record %s: %w", path, err)
	}
	r.mu.Lock()
	same := bytes.Equal(r.written[uid], data)
	if same {
		delete(r.pending, uid)
	} else {
		r.pending[uid] = data
	}
	r.mu.Unlock()
	if same {
		r.files.Report(path, nil)
		return false, nil
	}
	if err := r.files.Write(path, func() error { return r.flush(uid, path) }); err != nil {
		return false, fmt.Errorf("failed to write pod record %s: %w", path, err)
	}
	return true, nil
}

// flush writes the pending record of a pod, if there still is one.
func (r *Records) flush(uid types.UID, path string) error {
	writing := r.lockOf(uid)
	writing.Lock()
	defer writing.Unlock()
	r.mu.Lock()
	data, ok := r.pending[uid]
	r.mu.Unlock()
	if !ok {
		return nil
	}
	err := atomicfile.Replace(path, data)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(r.dir, 0o700); err == nil {
			err = atomicfile.Replace(path, data)
		}
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written[uid] = data
	delete(r.pending, uid)
	return nil
}

func (r *Records) lockOf(uid types.UID) *sync.Mutex {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(uid))
	return &r.writing[hash.Sum32()%uint32(len(r.writing))]
}

// Delete deletes the record of a pod; a missing record is no error.
func (r *Records) Delete(uid types.UID) error {
	path, err := r.path(uid)
	if err != nil {
		return err
	}
	writing := r.lockOf(uid)
	writing.Lock()
	defer writing.Unlock()
	r.mu.Lock()
	delete(r.written, uid)
	delete(r.pending, uid)
	r.mu.Unlock()
	r.files.Report(path, nil) // what is not stored is not missed any more
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to remove pod record: %w", err)
	}
	return nil
}

// UIDs returns the pods that have a record, so that records of removed pods can be
// deleted.
func (r *Records) UIDs() ([]types.UID, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("failed to list pod records: %w", err)
	}
	var uids []types.UID
	for _, e := range entries {
		if uid, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			uids = append(uids, types.UID(uid))
		}
	}
	return uids, nil
}

func (r *Records) remember(uid types.UID, data []byte) {
	r.mu.Lock()
	r.written[uid] = data
	r.mu.Unlock()
}

// path rejects a UID that could lead out of the directory. UIDs are validated before;
// this is the last check before a file is written as root.
func (r *Records) path(uid types.UID) (string, error) {
	name := string(uid)
	if name == "" || strings.ContainsAny(name, "/\\\x00") || strings.HasPrefix(name, ".") {
		return "", fmt.Errorf("invalid pod record: %q is not a valid UID", name)
	}
	return filepath.Join(r.dir, name+".json"), nil
}
