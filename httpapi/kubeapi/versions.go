package kubeapi

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/podstead/podstead/internal/statefile"
)

// versionBlock is the number of versions reserved by one write of the file.
const versionBlock = 1 << 20

// boundFormat is the file of the bound: a decimal number and a newline.
var boundFormat = statefile.Format[uint64]{
	Name: "resource-version", Limit: 64, Damaged: statefile.MoveAside, Newer: statefile.MoveAside, Repeat: true,
	Encode: func(bound uint64) ([]byte, error) { return []byte(strconv.FormatUint(bound, 10) + "\n"), nil },
	Decode: func(text []byte) (uint64, error) { return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64) },
}

// Versions allocates resource versions, which only increase: over restarts, because a file
// stores an upper bound that was never reached; and over a loss of the file, because the
// first version is derived from the time. While the file exists, a clock that is set back
// has no effect.
type Versions struct {
	file *statefile.File[uint64]

	mu sync.Mutex
	// last is the latest allocated version; bound is the first one that must not be
	// allocated.
	last, bound uint64
}

// OpenVersions reads the bound from the file at path and continues after it. An empty path
// stores nothing.
func OpenVersions(path string, disk statefile.Disk) *Versions {
	v := &Versions{file: boundFormat.File(path, disk)}
	now := uint64(time.Now().Unix()) << 20
	start := now
	// A file that cannot be read, or without a number, is treated as lost.
	if known, err := v.file.Load(); err == nil {
		start = known
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last = start
	if v.reserve() != nil {
		// A previous start may have found the same bound and not have stored another one:
		// the time tells its versions from those of this start.
		v.last = max(start, now)
		v.bound = v.last + versionBlock
	}
	return v
}

// reserve increases the bound, on disk first. If that fails the bound is increased all the
// same, and the write is repeated. mu is held.
func (v *Versions) reserve() error {
	v.bound = v.last + versionBlock
	return v.file.Save(v.bound)
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
