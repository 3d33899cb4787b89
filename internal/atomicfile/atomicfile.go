package atomicfile

import (
	"errors"
	"os"
	"syscall"
)

// Suffix is that of a file while it is written. It is a fixed one: what a crash
// leaves behind is gone the next time. So of one file there may be one
// writer at a time.
const Suffix = ".tmp"

// Mode is that of the files: only their owner reads them.
const Mode = 0o600

// Replace gives the file at path this content. The content is on the disk when
// it returns; the name may still be that of the old one after a power loss, as
// the folder is not synced.
func Replace(path string, data []byte) (err error) {
	tmp := path + Suffix
	// One that is there could have another mode, or be a link.
	_ = syscall.Unlink(tmp)
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, Mode)
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
