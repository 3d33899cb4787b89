package status

import (
	"fmt"
	"io"
	"os"
)

// tmpSuffix is that of a record that is being written.
const tmpSuffix = ".tmp"

// read reads a file of bounded size.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err == nil && len(data) > maxRecord {
		err = fmt.Errorf("larger than %d bytes", maxRecord)
	}
	return data, err
}

// replace puts a file in the place of another so that one of the two is found
// whatever happens. The folder is not synced: losing the rename loses history
// only, and a second fsync doubles the wear of flash.
func replace(path string, data []byte) (err error) {
	tmp := path + tmpSuffix
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp)
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
