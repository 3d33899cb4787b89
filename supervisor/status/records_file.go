package status

import (
	"fmt"
	"io"
	"os"
)

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
