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

// reserved is how many resource versions are taken at once. The file is
// written that seldom.
const versionBlock = 1 << 20

// Versions hands out resource versions. They only grow: over restarts, because
// the file at path keeps a bound that was never reached; and over a loss of the
// file, because the first one is made of the time. A clock that jumps back does
// nothing to those that know the file.
type Versions struct {
	path string

	mu sync.Mutex
	// last was handed out; bound is the first that may not be.
	last, bound uint64
}

// OpenVersions reads the bound at path and takes the next ones after it. An
// empty path keeps nothing.
func OpenVersions(path string) (*Versions, error) {
	v := &Versions{path: path}
	start := uint64(time.Now().Unix()) << 20
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot read the last resource version: %w", err)
		}
		// What cannot be read as a number is as good as lost.
		if known, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			start = known
		}
	}
	v.last, v.bound = start, start
	return v, v.reserve()
}

// reserve moves the bound, on disk first.
func (v *Versions) reserve() error {
	next := v.last + versionBlock
	if v.path != "" {
		if err := atomicfile.Replace(v.path, []byte(strconv.FormatUint(next, 10)+"\n")); err != nil {
			return fmt.Errorf("cannot keep the last resource version: %w", err)
		}
	}
	v.bound = next
	return nil
}

// Next is a version larger than all before. If the disk does not take the next
// bound, the versions go on without it: they stay right until a restart, which
// then finds an old bound, and clients that know newer ones list anew.
func (v *Versions) Next() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last++
	if v.last >= v.bound {
		_ = v.reserve()
	}
	return v.last
}

// Last is the newest version that was handed out.
func (v *Versions) Last() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last
}
