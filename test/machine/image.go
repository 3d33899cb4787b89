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
	// Dir contains root.ext4, vmlinuz, modules/ and versions.
	Dir string
}

// agentVar passes the path of the built agent into the test bed's namespaces.
const agentVar = "PODSTEAD_MACHINE_AGENT"

// Build checks that the image and QEMU are there, and builds the agent and what testbed.Build
// builds. Pass it to testbed.Isolate.
func Build() error {
	if err := testbed.Build(); err != nil {
		return err
	}
	if _, err := BaseImage(); err != nil {
		return err
	}
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		return fmt.Errorf("%w\nrun: make setup", err)
	}
	out := filepath.Join(testbed.Dir(), "bin", "agent")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", out, "./agent")
	cmd.Dir = sourceDir()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("failed to build the agent: %v\n%s", err, msg)
	}
	return os.Setenv(agentVar, out)
}

func sourceDir() string { return filepath.Join(testbed.SourceRoot(), "test", "machine") }

// BaseImage returns the image that test/setup.sh built from the current image.sh and packages.
func BaseImage() (Image, error) {
	sum := sha256.New()
	for _, name := range []string{"image.sh", "packages"} {
		text, err := os.ReadFile(filepath.Join(sourceDir(), name))
		if err != nil {
			return Image{}, err
		}
		sum.Write(text)
	}
	i := Image{Dir: filepath.Join(testbed.Cache(), "machine-"+hex.EncodeToString(sum.Sum(nil))[:16])}
	if _, err := os.Stat(i.disk()); err != nil {
		return Image{}, fmt.Errorf("no disk image of the machine: %w\nrun: make setup", err)
	}
	return i, nil
}

func (i Image) disk() string   { return filepath.Join(i.Dir, "root.ext4") }
func (i Image) kernel() string { return filepath.Join(i.Dir, "vmlinuz") }
