package testbed

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// toolsDir returns the directory in which test/setup.sh installs the programs of test/tools. Its
// name ends in the hash of their sources and versions, as in tools_version of test/setup.sh.
var toolsDir = sync.OnceValue(func() string {
	dir := filepath.Join(SourceRoot(), "test/tools")
	files, _ := filepath.Glob(filepath.Join(dir, "*/main.go")) // fails only for a malformed pattern
	slices.Sort(files)
	hash := sha256.New()
	for _, f := range append([]string{filepath.Join(dir, "go.mod")}, files...) {
		data, err := os.ReadFile(f)
		if err != nil {
			panic(err) // a part of this source tree
		}
		hash.Write(data)
	}
	return filepath.Join(Cache(), "tools-"+hex.EncodeToString(hash.Sum(nil))[:16])
})
