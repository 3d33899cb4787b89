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
	return filepath.Join(Cache(), "tools-"+sourcesHash(filepath.Join(dir, "go.mod"), filepath.Join(dir, "*/main.go")))
})

// sourcesHash returns the hash of a file and of those that match a pattern, in the order of their names, as
// test/setup.sh computes it.
func sourcesHash(first, pattern string) string {
	files, _ := filepath.Glob(pattern) // fails only for a malformed pattern
	slices.Sort(files)
	hash := sha256.New()
	for _, f := range append([]string{first}, files...) {
		data, err := os.ReadFile(f)
		if err != nil {
			panic(err) // a part of this source tree
		}
		hash.Write(data)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}
