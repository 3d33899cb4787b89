package main

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/podstead/podstead/supervisor/volume"
)

// The API answers with 404, and a person reads of the volume alone.
func TestAbsentVolumeIsTold(t *testing.T) {
	const text = "no such persistent volume: default/data"
	err := absent{fmt.Errorf("%w: default/data", volume.ErrNoClaim)}
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != text {
		t.Errorf("%v, want %s", err, text)
	}
}
