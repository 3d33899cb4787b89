package cri

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/internal/fileaccess"
)

// maxTerminationMessage is the kubelet's limit in bytes.
const maxTerminationMessage = 4096

// readTerminationMessage returns the end of a container's termination message
// file as valid UTF-8, empty if there is none. An error is only logged: it never
// keeps a pod from being observed.
func (c *Client) readTerminationMessage(path string) string {
	message, err := terminationMessage(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Debug("Failed to read termination message", "path", path, "err", err)
	}
	return message
}

// terminationMessage reads at most the last 4096 bytes.
func terminationMessage(path string) (string, error) {
	data, cut, err := readTail(path, maxTerminationMessage, 0)
	return validMessage(data, cut), err
}

// endTimeout limits the wait for the last lines of the log of a container that has exited: the runtime may
// write them after it has reported the exit.
const endTimeout = 200 * time.Millisecond

// readTail returns at most the last bytes of a file, and whether it is longer;
// after an error, what was read so far. It waits at most for wait until no process has the file open for writing. A
// container may have replaced the file with anything, so that links are not followed, only regular files are read, and
// opening never blocks.
func readTail(path string, most int64, wait time.Duration) (data []byte, cut bool, err error) {
	f, err := boundedfile.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if wait > 0 {
		fileaccess.AwaitClosed(context.Background(), f, wait)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	from := max(info.Size()-most, 0)
	data, err = io.ReadAll(io.NewSectionReader(f, from, most))
	return data, from > 0, err
}

// validMessage converts data to valid UTF-8. If the start was cut off, the rest
// of a split rune is dropped too.
func validMessage(data []byte, cut bool) string {
	if cut {
		for i := 0; i < utf8.UTFMax-1 && len(data) > 0 && !utf8.RuneStart(data[0]); i++ {
			data = data[1:]
		}
	}
	return strings.ToValidUTF8(string(data), string(utf8.RuneError))
}
