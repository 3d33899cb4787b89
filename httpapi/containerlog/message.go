package containerlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"
)

// stream is the number of a stream: they are printed as one, but a line in
// pieces must not be mixed with the other stream's.
type stream uint8

const (
	stdout stream = iota
	stderr
	streams
)

// message is one line of the file: a line of the container, or a piece of one.
type message struct {
	// at is the time as the file has it, RFC 3339 with nanoseconds.
	at      []byte
	stream  stream
	partial bool
	content []byte
}

// errNotALine is given for a line that no runtime wrote so. The kubelet skips
// such lines too: a crash of the machine can leave one.
var errNotALine = errors.New("not a line of a container's log")

// parse reads a line without its line feed. The message points into it.
func parse(line []byte) (message, error) {
	if len(line) > 0 && line[0] == '{' {
		return parseJSON(line)
	}
	return parseHead(line)
}

// parseHead reads "TIME STREAM TAGS CONTENT", where content may go on beyond
// what is given. Tags are separated by colons; the first is P for a piece and F
// for the end of a line.
func parseHead(line []byte) (m message, err error) {
	at, rest, ok1 := bytes.Cut(line, []byte{' '})
	name, rest, ok2 := bytes.Cut(rest, []byte{' '})
	tags, content, _ := bytes.Cut(rest, []byte{' '})
	// The time's shape is checked where it is needed as a time; its first
	// digit is enough to tell a torn line.
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

// parseJSON reads a line of Docker's json-file driver: a piece of a line is
// one whose text has no line feed.
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

// before says whether the message is older than t. One whose time cannot be
// read is shown rather than lost.
func (m message) before(t time.Time) bool {
	at, err := time.Parse(time.RFC3339Nano, string(m.at))
	return err == nil && at.Before(t)
}
