package kubeapi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/podstead/podstead/internal/atomicfile"
)

// versionBlock is the number of versions reserved by one write of the file.
const versionBlock = 1 << 20

// Versions allocates resource versions, which only increase: over restarts, because a file
// stores an upper bound that was never reached; and over a loss of the file, because the
// first version is derived from the time. While the file exists, a clock that is set back
// has no effect.
type Versions struct {
	path string

	mu sync.Mutex
	// last is the latest allocated version; bound is the first one that must not be
	// allocated.
	last, bound uint64
}

// OpenVersions reads the bound from the file at path and continues after it. An empty path
// stores nothing.
func OpenVersions(path string) (*Versions, error) {
	v := &Versions{path: path}
	start := uint64(time.Now().Unix()) << 20
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("failed to read the last resource version: %w", err)
		}
		// A file without a number is treated as lost.
		if known, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			start = known
		}
	}
	v.last, v.bound = start, start
	return v, v.reserve()
}

// reserve increases the bound, on disk first.
func (v *Versions) reserve() error {
	next := v.last + versionBlock
	if v.path != "" {
		if err := atomicfile.Replace(v.path, []byte(strconv.FormatUint(next, 10)+"\n")); err != nil {
			return fmt.Errorf("failed to store the last resource version: %w", err)
		}
	}
	v.bound = next
	return nil
}

// Next allocates a version greater than all previous ones. If the next bound cannot be
// written to disk, allocation continues: the versions are right until a restart, which finds
// an old bound; clients that know newer versions then list again.
func (v *Versions) Next() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last++
	if v.last >= v.bound {
		_ = v.reserve()
	}
	return v.last
}

// Last returns the latest allocated version.
func (v *Versions) Last() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last
}
