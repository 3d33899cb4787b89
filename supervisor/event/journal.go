package event

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/atomicfile"
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
	size int64
	// rewrite: the end of the file cannot be trusted, or the file is too large.
	rewrite bool
}

// load reads the file: each event in its last state, in the order of their
// last lines. Lines that are no event, such as the last line of a killed daemon,
// are skipped. A missing file has no events.
func (j *journal) load() ([]v1.Event, error) {
	f, err := os.Open(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		j.rewrite = true
		return nil, nil
	}
	if err != nil {
		j.rewrite = true
		return nil, fmt.Errorf("failed to read previous events: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		j.rewrite = true
		return nil, errors.Join(fmt.Errorf("failed to read previous events: %s is not a regular file", j.path), err)
	}
	j.size = info.Size()
	// This program never writes a file beyond the bound.
	j.rewrite = j.size > maxJournal
	states, err := j.read(io.LimitReader(f, maxJournal))
	if err != nil {
		j.rewrite = true
		err = fmt.Errorf("failed to read all previous events: %w", err)
	}
	return newest(states), err
}

// read decodes the lines.
func (j *journal) read(r io.Reader) ([]v1.Event, error) {
	var states []v1.Event
	lines := bufio.NewReaderSize(r, maxJournalLine)
	for {
		line, err := lines.ReadSlice('\n')
		var e v1.Event
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			j.rewrite = true
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return states, err
		case len(line) == 0:
		case err != nil || json.Unmarshal(line, &e) != nil || e.Name == "" || e.Reason == "" || e.Count < 1:
			// Torn: what is appended must not become a part of it.
			j.rewrite = true
		default:
			states = append(states, e)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return states, nil
		}
	}
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
	return !j.rewrite && j.size+int64(len(data)) <= maxJournal
}

// add appends lines with one write. The file must exist: if it was removed, the
// events in it are missing too, and it has to be rewritten.
func (j *journal) add(data []byte) error {
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	n, err := f.Write(data)
	j.size += int64(n)
	if err != nil {
		j.rewrite = true
	}
	return errors.Join(err, f.Close())
}

// replace replaces the file by one with these lines. It is synced first:
// otherwise a power loss could lose the old events too.
func (j *journal) replace(data []byte) error {
	if err := os.MkdirAll(filepath.Dir(j.path), 0o700); err != nil {
		return err
	}
	if err := atomicfile.Replace(j.path, data); err != nil {
		return err
	}
	j.size, j.rewrite = int64(len(data)), false
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
