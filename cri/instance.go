package cri

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is the kernel's limit of symbolic links in one path.
const maxLinks = 40

// Instance returns the value of LabelInstance for a daemon with this root
// directory on this machine: 16 hex digits. It depends on nothing else, so that a
// daemon whose root directory was wiped still recognises its pods, and another
// spelling of the same directory is the same instance.
func Instance(machineID, rootDir string) string {
	sum := sha256.Sum256([]byte("podstead.io/instance\x00" + strings.ToLower(strings.TrimSpace(machineID)) + "\x00" +
		realPath(rootDir)))
	return hex.EncodeToString(sum[:8])
}

// realPath returns the path with every symbolic link in it resolved. Unlike
// filepath.EvalSymlinks it does not need the directory to exist, so that the
// result is the same before the first start, after a wipe and in between.
func realPath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	done, rest, links := "/", strings.Split(filepath.Clean(path), "/"), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			done = filepath.Dir(done)
			continue
		}
		next := filepath.Join(done, name)
		target, err := os.Readlink(next)
		if err != nil || links == maxLinks {
			done = next // not a link, or missing
			continue
		}
		links++
		if filepath.IsAbs(target) {
			done = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done
}
