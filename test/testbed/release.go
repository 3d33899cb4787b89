package testbed

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// BuildRelease builds a release with make release, and returns its directory. Without platforms it
// is for all. The command that signs copies the checksums into the directory above.
func BuildRelease(version string, platforms ...string) (dir string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Minute)
	defer cancel()
	parent := filepath.Join(Dir(), "release-"+version)
	dir = filepath.Join(parent, "dist")
	flags := "-out " + dir
	if len(platforms) > 0 {
		flags += " -platforms " + strings.Join(platforms, ",")
	}
	nfpm := filepath.Join(Cache(), "nfpm-"+Version("NFPM_VERSION"), "nfpm")
	cmd := exec.CommandContext(ctx, "make", "release", "VERSION="+version, "COMMIT=0123456789",
		"SOURCE_DATE_EPOCH=1790000000",
		"NFPM="+nfpm, "SIGN_COMMAND=cp -t "+parent+" --", "RELEASE_FLAGS="+flags)
	cmd.Dir = SourceRoot()
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make release: %w\n%s", err, text)
	}
	return dir, nil
}
