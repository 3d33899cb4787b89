package atomicfile

import (
	"errors"
	"os"
	"syscall"
)

// Suffix is appended to the name of a file while it is written. It is fixed, so
// that the next write removes what a crash left behind. Each file may therefore
// have only one writer at a time.
const Suffix = ".tmp"

// Mode is the mode of files that Replace writes: only the owner can read them.
const Mode = 0o600

// Replace gives the file at path this content and the mode Mode. When it returns,
// the content is on the disk. After a power loss the name may still refer to the old
// file, because the directory is not synced.
func Replace(path string, data []byte) error { return ReplaceMode(path, data, Mode) }

// ReplaceMode is Replace with another mode, which the umask restricts.
func ReplaceMode(path string, data []byte, mode os.FileMode) (err error) {
	tmp := path + Suffix
	// An existing file could have another mode, or be a link.
	_ = syscall.Unlink(tmp)
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp) // gives a full disk its space back
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
