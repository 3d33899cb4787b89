package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/statefile"
)

const (
	// maxJournal bounds the journal's file in bytes. The file is rewritten with
	// the events that are still kept before it would grow beyond.
	maxJournal = 2 << 20
	// maxKept bounds the events in a rewritten file, in bytes, so that there is
	// room to append and rewriting stays rare.
	maxKept = maxJournal / 2
	// maxJournalLine bounds one event in bytes; a longer line is damaged.
	maxJournalLine = 64 << 10
)

// journal is the file of events: one line of JSON for each written state of an
// event, the newest last. It is appended to without fsync: a killed daemon loses
// nothing that was written, a power loss at most the last seconds.
type journal struct {
	path string
	disk statefile.Disk
	size int
	// rewrite: the end of the file cannot be trusted, or there is none.
	rewrite bool
}

// load reads the file: each event in its last state, in the order of their
// last lines. Lines that are no event, such as the last line of a killed daemon,
// are skipped. A missing file has no events.
func (j *journal) load() ([]v1.Event, error) {
	data, err := j.disk.Do().Read(j.path, maxJournal)
	if err != nil {
		j.rewrite = true
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, fmt.Errorf("failed to read previous events: %w", err)
	}
	j.size = len(data)
	return newest(j.decode(data)), nil
}

// decode decodes the lines.
func (j *journal) decode(data []byte) (states []v1.Event) {
	for line := range bytes.Lines(data) {
		var e v1.Event
		if len(line) > maxJournalLine || !bytes.HasSuffix(line, []byte("\n")) || json.Unmarshal(line, &e) != nil ||
			e.Name == "" || e.Reason == "" || e.Count < 1 {
			// Torn: what is appended must not become a part of it.
			j.rewrite = true
			continue
		}
		states = append(states, e)
	}
	return states
}

// newest returns the last state of each event, in the order of those.
func newest(states []v1.Event) []v1.Event {
	last := make(map[string]int, len(states))
	for i := range states {
		last[states[i].Name] = i
	}
	kept := states[:0]
	for i := range states {
		if last[states[i].Name] == i {
			kept = append(kept, states[i])
		}
	}
	return kept
}

// fits reports whether the data may be appended.
func (j *journal) fits(data []byte) bool {
	return !j.rewrite && j.size+len(data) <= maxJournal
}

// add appends lines with one write. The file must exist: if it was removed, the
// events in it are missing too, and it has to be rewritten.
func (j *journal) add(data []byte) error {
	f, err := j.disk.Do().Append(j.path)
	if err != nil {
		return err
	}
	n, err := f.Write(data)
	j.size += n
	if err != nil {
		j.rewrite = true
	}
	return errors.Join(err, f.Close())
}

// replace replaces the file by one with these lines. It is synced first:
// otherwise a power loss could lose the old events too.
func (j *journal) replace(data []byte) error {
	if err := j.disk.Do().MkdirAll(filepath.Dir(j.path), 0o700); err != nil {
		return err
	}
	if err := j.disk.Replace(j.path, data, 0o600, statefile.Atomic); err != nil {
		return err
	}
	j.size, j.rewrite = len(data), false
	return nil
}

// encode returns the lines of events.
func encode(events []v1.Event) ([]byte, error) {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	for i := range events {
		if err := lines.Encode(&events[i]); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
