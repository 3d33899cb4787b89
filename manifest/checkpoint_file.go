package manifest

import (
	"os"
	"path/filepath"
)

// replaceFile gives path that content such that a crash at any point leaves
// either the old file or the new one, whole. The file's mode is 0600.
func replaceFile(path string, data []byte) (err error) {
	// A fixed name: what a crash leaves behind is overwritten the next time.
	temp := path + ".tmp"
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(temp) // gives a full disk its space back
		}
	}()
	if _, err = file.Write(data); err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err = os.Rename(temp, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a rename in the folder outlast a power loss.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}
