package cri

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// maxTerminationMessage is the kubelet's limit in bytes.
const maxTerminationMessage = 4096

// readTerminationMessage is the end of the file in which a container left its
// last words, as valid UTF-8; empty if there are none. Trouble is logged and
// no more: last words never keep a pod from being seen.
func (c *Client) readTerminationMessage(path string) string {
	message, err := terminationMessage(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Debug("cannot read termination message", "path", path, "err", err)
	}
	return message
}

// terminationMessage reads at most the last 4096 bytes.
func terminationMessage(path string) (string, error) {
	data, cut, err := readTail(path, maxTerminationMessage)
	return validMessage(data, cut), err
}

// readTail is at most so many last bytes of a file, and whether there are more
// before them; if it fails, what was read so far. A container may have put
// anything in place of the file, so that no link is followed, nothing that is
// not a regular file is read, and opening never waits.
func readTail(path string, most int64) (data []byte, cut bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() {
		return nil, false, errors.New("it is not a regular file")
	}
	from := max(info.Size()-most, 0)
	data, err = io.ReadAll(io.NewSectionReader(f, from, most))
	return data, from > 0, err
}

// validMessage makes valid UTF-8 of data. Where the start was cut off, the
// rest of a rune that was cut in two goes too.
func validMessage(data []byte, cut bool) string {
	if cut {
		for i := 0; i < utf8.UTFMax-1 && len(data) > 0 && !utf8.RuneStart(data[0]); i++ {
			data = data[1:]
		}
	}
	return strings.ToValidUTF8(string(data), string(utf8.RuneError))
}
