package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/podstead/podstead/test/testbed"
)

// Image is a disk image with its kernel, as image.sh builds it.
type Image struct {
	// Dir contains root.ext4, vmlinuz, busybox, modules/ and versions.
	Dir string
	// Arch is the architecture, in the words of Go and of Debian.
	Arch string
}

// The architectures of machines. The first is that of Options without one.
const (
	AMD64 = "amd64"
	ARM64 = "arm64"
)

// Build checks that the image and QEMU are there, and builds what testbed.Build builds. Pass it to
// testbed.Isolate.
func Build() error {
	if err := testbed.Build(); err != nil {
		return err
	}
	_, err := BaseImage(AMD64)
	return err
}

// buildFor builds a program of this module for an architecture, once for all tests.
func buildFor(arch, pkg string) (string, error) {
	out := filepath.Join(testbed.Dir(), "bin", filepath.Base(pkg)+"-"+arch)
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Dir = testbed.SourceRoot()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
	if msg, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("failed to build %s: %v\n%s", pkg, err, msg)
	}
	return out, nil
}

func sourceDir() string { return filepath.Join(testbed.SourceRoot(), "test", "machine") }

// BaseImage returns the image that test/setup.sh built from the current image.sh and packages.
func BaseImage(arch string) (Image, error) {
	sum := sha256.New()
	for _, name := range []string{"image.sh", "packages"} {
		text, err := os.ReadFile(filepath.Join(sourceDir(), name))
		if err != nil {
			return Image{}, err
		}
		sum.Write(text)
	}
	i := Image{Arch: arch, Dir: filepath.Join(testbed.Cache(), "machine-"+arch+"-"+hex.EncodeToString(sum.Sum(nil))[:16])}
	_, err := os.Stat(i.disk())
	if err == nil {
		_, err = exec.LookPath(emulators[arch].program)
	}
	if err != nil {
		return Image{}, fmt.Errorf("no machine of the architecture %s: %w\nrun: test/setup.sh machines", arch, err)
	}
	return i, nil
}

func (i Image) disk() string    { return filepath.Join(i.Dir, "root.ext4") }
func (i Image) kernel() string  { return filepath.Join(i.Dir, "vmlinuz") }
func (i Image) busybox() string { return filepath.Join(i.Dir, "busybox") }
