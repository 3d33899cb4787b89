package cri

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"

	v1 "k8s.io/api/core/v1"
)

// The part of a log that replaces a termination message, as with the kubelet.
const (
	maxFallbackLines = 80
	maxFallbackBytes = 2048
	// fallbackWindow is how much of the log's end is read: the lines and the
	// prefixes that a runtime puts before them, which splits lines at 16 KiB.
	fallbackWindow = 64 << 10
)

// usesLogFallback reports whether the container's log replaces the message that
// it did not write.
func (k *Container) usesLogFallback() bool {
	return k.TerminationPolicy == v1.TerminationMessageFallbackToLogsOnError && k.ExitCode != 0 && k.LogPath != ""
}

// readLogTail returns the end of a container's log, empty if there is none. As
// with the message itself, an error is only logged.
func (c *Client) readLogTail(path string) string {
	text, err := logTail(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Debug("Failed to read the log of a failed container", "path", path, "err", err)
	}
	return text
}

func logTail(path string) (string, error) {
	data, cut, err := readTail(path, fallbackWindow, endTimeout)
	if cut {
		_, data, _ = bytes.Cut(data, []byte{'\n'})
	}
	text := lastLines(logContent(data), maxFallbackLines)
	if cut = len(text) > maxFallbackBytes; cut {
		text = text[len(text)-maxFallbackBytes:]
	}
	return validMessage(text, cut), err
}

// logContent returns what the container wrote, without the prefix of each line:
// "TIME STREAM TAGS ", where the tag P marks a partial line, or a JSON object.
// Lines that no runtime wrote are skipped.
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

// lastLines returns the last count lines of a text.
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
