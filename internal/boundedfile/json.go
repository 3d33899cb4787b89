package boundedfile

import (
	"encoding/json"
	"fmt"
)

// ReadJSON decodes the JSON object in a file of at most limit bytes, whose field version must have this
// value: a file of another version is not decoded. Its errors are those of Read, and name the file.
func ReadJSON(path string, limit int64, version int, to any) error {
	data, err := Read(path, limit)
	if err != nil {
		return err
	}
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("%s cannot be decoded: %w", path, err)
	}
	if head.Version != version {
		return fmt.Errorf("%s has version %d, and this program reads version %d", path, head.Version, version)
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("%s cannot be decoded: %w", path, err)
	}
	return nil
}
