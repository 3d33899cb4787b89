package containerlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"
)

// stream is the number of a stream. Both are printed together, but a partial line must not
// be mixed with lines of the other stream.
type stream uint8

const (
	stdout stream = iota
	stderr
	streams
)

// message is one line of the file: a line of the container, or a part of one.
type message struct {
	// at is the time in the file, in RFC 3339 with nanoseconds.
	at      []byte
	stream  stream
	partial bool
	content []byte
}

// errNotALine means that a line has an invalid format, as after a crash of the host. The
// kubelet skips such lines too.
var errNotALine = errors.New("not a line of a container log")

// parse parses a line without its line feed. The message refers to its memory.
func parse(line []byte) (message, error) {
	if len(line) > 0 && line[0] == '{' {
		return parseJSON(line)
	}
	return parseHead(line)
}

// parseHead parses "TIME STREAM TAGS CONTENT", where CONTENT may be incomplete. Tags are
// separated by colons; the first is P for a partial line and F for the end of a line.
func parseHead(line []byte) (m message, err error) {
	at, rest, ok1 := bytes.Cut(line, []byte{' '})
	name, rest, ok2 := bytes.Cut(rest, []byte{' '})
	tags, content, _ := bytes.Cut(rest, []byte{' '})
	// The format of the time is checked where the time is used; its first digit is enough
	// to recognize a torn line.
	if !ok1 || !ok2 || len(at) < len("2006-01-02T15:04:05Z") || at[0] < '0' || at[0] > '9' {
		return m, errNotALine
	}
	m.at, m.content = at, content
	switch string(name) {
	case "stdout":
		m.stream = stdout
	case "stderr":
		m.stream = stderr
	default:
		return m, errNotALine
	}
	tag, _, _ := bytes.Cut(tags, []byte{':'})
	switch string(tag) {
	case "F":
	case "P":
		m.partial = true
	default:
		return m, errNotALine
	}
	return m, nil
}

// parseJSON parses a line of Docker's json-file driver. The text of a partial line has no
// line feed.
func parseJSON(line []byte) (m message, err error) {
	var j struct {
		Log    string `json:"log"`
		Stream string `json:"stream"`
		Time   string `json:"time"`
	}
	if err := json.Unmarshal(line, &j); err != nil {
		return m, errNotALine
	}
	switch j.Stream {
	case "stdout":
		m.stream = stdout
	case "stderr":
		m.stream = stderr
	default:
		return m, errNotALine
	}
	m.at, m.content = []byte(j.Time), []byte(j.Log)
	if n := len(m.content); n > 0 && m.content[n-1] == '\n' {
		m.content = m.content[:n-1]
	} else {
		m.partial = true
	}
	return m, nil
}

// before reports whether the message is older than t. A message with an invalid time is
// shown rather than lost.
func (m message) before(t time.Time) bool {
	at, err := time.Parse(time.RFC3339Nano, string(m.at))
	return err == nil && at.Before(t)
}
