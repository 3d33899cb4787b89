package cri

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"

	v1 "k8s.io/api/core/v1"
)

// What of a log stands in for a termination message, as with the kubelet.
const (
	maxFallbackLines = 80
	maxFallbackBytes = 2048
	// fallbackWindow is what is read of the log's end: the lines and the heads
	// that a runtime puts before them, which cuts lines at 16 KiB.
	fallbackWindow = 64 << 10
)

// fallsBack tells a container whose log stands in for the message that it did
// not leave.
func (k *Container) usesLogFallback() bool {
	return k.TerminationPolicy == v1.TerminationMessageFallbackToLogsOnError && k.ExitCode != 0 && k.LogPath != ""
}

// readLogEnd is the end of a container's log, empty if there is none. As with
// the message itself, trouble is logged and no more.
func (c *Client) readLogTail(path string) string {
	text, err := logTail(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Debug("cannot read the log of a container that failed", "path", path, "err", err)
	}
	return text
}

func logTail(path string) (string, error) {
	data, cut, err := readTail(path, fallbackWindow)
	if cut {
		_, data, _ = bytes.Cut(data, []byte{'\n'})
	}
	text := lastLines(logContent(data), maxFallbackLines)
	if cut = len(text) > maxFallbackBytes; cut {
		text = text[len(text)-maxFallbackBytes:]
	}
	return validMessage(text, cut), err
}

// printed is what the container wrote, without what its runtime put before
// each line: "TIME STREAM TAGS ", where the tag P is that of a line in pieces,
// or all of it in JSON. What no runtime wrote is left out.
func logContent(log []byte) []byte {
	var out []byte
	for line := range bytes.Lines(log) {
		line = bytes.TrimSuffix(line, []byte{'\n'})
		if bytes.HasPrefix(line, []byte{'{'}) {
			var entry struct {
				Log string `json:"log"`
			}
			if json.Unmarshal(line, &entry) == nil {
				out = append(out, entry.Log...)
			}
			continue
		}
		fields := bytes.SplitN(line, []byte{' '}, 4)
		if len(fields) < 3 {
			continue
		}
		if len(fields) == 4 {
			out = append(out, fields[3]...)
		}
		if tag, _, _ := bytes.Cut(fields[2], []byte{':'}); string(tag) != "P" {
			out = append(out, '\n')
		}
	}
	return out
}

// lastLines are the last of some lines.
func lastLines(text []byte, count int) []byte {
	at := len(text)
	for range count {
		end := at
		if at > 0 && text[at-1] == '\n' {
			end--
		}
		at = bytes.LastIndexByte(text[:end], '\n') + 1
		if at == 0 {
			break
		}
	}
	return text[at:]
}
