package cri

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many symbolic links one path may pass; the kernel's limit.
const maxLinks = 40

// Instance is the value of LabelInstance for a daemon with this root folder
// on this machine: 16 hex digits. It depends on nothing else, so that a
// daemon whose root folder was wiped still knows its pods, and another way to
// write the same folder is the same instance.
func Instance(machineID, rootDir string) string {
	sum := sha256.Sum256([]byte("podstead.io/instance\x00" + strings.ToLower(strings.TrimSpace(machineID)) + "\x00" + realPath(rootDir)))
	return hex.EncodeToString(sum[:8])
}

// realPath is the path with every symbolic link in it followed. Unlike
// filepath.EvalSymlinks it does not need the folder to be there, so that it
// gives the same before the first start, after a wipe and in between.
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
			done = next // no link, or not there
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
