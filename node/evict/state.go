package evict

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/atomicfile"
)

// state is what a daemon leaves to the next one: the conditions that are set. It
// is written when one changes.
type state struct {
	// Boot is the boot ID: a reboot frees memory and processes.
	Boot       string                 `json:"boot"`
	Conditions []v1.NodeConditionType `json:"conditions"`
}

// maxStateSize limits what is read, in bytes.
const maxStateSize = 1 << 16

// loadState returns the conditions in the file that still apply in this boot, none
// if there is no file.
func loadState(file, boot string) ([]v1.NodeConditionType, error) {
	if file == "" {
		return nil, nil
	}
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var data []byte
	if err == nil && info.Size() <= maxStateSize {
		data, err = os.ReadFile(file)
	}
	var k state
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read the node pressure state: %w", err)
	}
	var list []v1.NodeConditionType
	for _, c := range k.Conditions {
		if k.Boot == boot || c == v1.NodeDiskPressure {
			list = append(list, c)
		}
	}
	return list, nil
}

// saveState writes the file, or removes it if no condition is set. A full disk may
// not take it; then a restart forgets the pressure, and finds the disk full again.
func saveState(file, boot string, list []v1.NodeConditionType) error {
	if file == "" {
		return nil
	}
	if len(list) == 0 {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := json.Marshal(state{Boot: boot, Conditions: list})
	if err != nil {
		return err
	}
	return atomicfile.Replace(file, data)
}
