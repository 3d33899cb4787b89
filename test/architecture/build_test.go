package architecture

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// `make build` creates a static binary, also where a C compiler is installed: it needs neither
// a loader nor a C library. A smaller program that uses the same packages of the standard
// library stands in for podstead.
func TestBuildIsStatic(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("make", "-C", "../..", "build", "BIN="+dir, "PROGRAM=./test/testbed/portserver")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, out)
	}
	file, err := elf.Open(filepath.Join(dir, "podstead"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary has the segment %s: it is not static", p.Type)
		}
	}
	if len(file.Progs) == 0 {
		t.Error("the binary has no segments")
	}
}
