package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// release is what is built.
type release struct {
	// version is as git describe prints it; commit and date are empty and zero without git.
	version, commit string
	date            time.Time
	// out is the directory of the results, an absolute path; stage has what goes into archives
	// and packages.
	out, stage string
	// nfpm is the command that makes packages, in words; empty for no packages.
	nfpm []string
	// sign is a shell command that is called with the path of the checksums, or empty.
	sign string
}

// platform is an architecture of Linux.
type platform struct {
	// name is in the names of archives, and env what the Go tool takes.
	name string
	env  []string
	// pkg is the name that nfpm knows; it translates it for deb and rpm.
	pkg string
}

var platforms = []platform{
	{"amd64", []string{"GOARCH=amd64", "GOAMD64=v1"}, "amd64"},
	{"arm64", []string{"GOARCH=arm64", "GOARM64=v8.0"}, "arm64"},
	{"armv7", []string{"GOARCH=arm", "GOARM=7"}, "arm7"},
	{"riscv64", []string{"GOARCH=riscv64", "GORISCV64=rva20u64"}, "riscv64"},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run() error {
	var r release
	var seconds int64
	var names, nfpm string
	flag.StringVar(&r.version, "version", "", "version, as git describe prints it")
	flag.StringVar(&r.commit, "commit", "", "commit")
	flag.Int64Var(&seconds, "date", 0, "date of the commit, in seconds since 1970")
	flag.StringVar(&r.out, "out", "dist", "directory of the results; what it contains is removed")
	flag.StringVar(&names, "platforms", "amd64,arm64,armv7,riscv64", "platforms to build for")
	flag.StringVar(&nfpm, "nfpm", "", "command that makes packages; empty for none")
	flag.StringVar(&r.sign, "sign", "", "shell command that signs the file that is its last argument")
	flag.Parse()
	if r.version == "" {
		return errors.New("-version is missing: git describes none, so pass VERSION=v0.1.0 to make")
	}
	r.date, r.nfpm = time.Unix(seconds, 0).UTC(), strings.Fields(nfpm)
	var err error
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	r.stage = filepath.Join(r.out, "stage")
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.stage, 0o755)); err != nil {
		return err
	}
	var selected []platform
	for name := range strings.SplitSeq(names, ",") {
		p, ok := platformNamed(name)
		if !ok {
			return fmt.Errorf("unknown platform %q; use amd64, arm64, armv7 or riscv64", name)
		}
		selected = append(selected, p)
	}
	return r.build(selected)
}

func platformNamed(name string) (platform, bool) {
	for _, p := range platforms {
		if p.name == name {
			return p, true
		}
	}
	return platform{}, false
}

// build builds everything.
func (r release) build(selected []platform) error {
	if err := errors.Join(r.manual(), r.completions(), r.units(), r.configuration(), r.changelogs()); err != nil {
		return err
	}
	for _, p := range selected {
		fmt.Printf("podstead %s for linux/%s\n", r.version, p.name)
		if err := r.compile(p); err != nil {
			return err
		}
		modules, err := r.licenses(p)
		if err != nil {
			return err
		}
		if err := errors.Join(r.billOfMaterials(p, modules), r.archive(p), r.packages(p)); err != nil {
			return err
		}
	}
	if err := copyFile("install.sh", filepath.Join(r.out, "install.sh"), 0o755); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(r.stage), r.checksums()); err != nil {
		return err
	}
	if r.sign == "" {
		return nil
	}
	return command(nil, "sh", "-c", r.sign+` "$1"`, "sign", filepath.Join(r.out, checksumFile))
}

// program returns the path of the compiled program.
func (r release) program(p platform) string { return filepath.Join(r.stage, p.name, "podstead") }

// compile builds the program, static and without paths of this machine. It does not let the Go
// tool ask git, so that a source archive gives the same bytes as a clone.
func (r release) compile(p platform) error {
	const buildinfo = "github.com/podstead/podstead/internal/buildinfo."
	flags := fmt.Sprintf("-s -w -X %[1]sversion=%[2]s -X %[1]scommit=%[3]s -X %[1]sdate=%[4]s",
		buildinfo, r.version, r.commit, r.date.Format(time.RFC3339))
	return command(append([]string{"CGO_ENABLED=0", "GOOS=linux", "GOFLAGS="}, p.env...),
		"go", "build", "-trimpath", "-buildvcs=false", "-tags", buildTags, inlineNone, inlineStd, "-ldflags", flags, "-o",
		r.program(p), "./cmd/podstead")
}

// buildTags are those of make build: the program without gRPC's tracing pages.
const buildTags = "grpcnotrace"

// inlineNone and inlineStd let the compiler inline functions in the standard library only: on amd64 the
// program has 32.6 MB instead of 35.4, and reading 300 manifests takes 1 to 4 % more CPU time. Without
// inlining in the standard library it would take 60 % more. The order counts: the last match applies.
const (
	inlineNone = "-gcflags=all=-l"
	inlineStd  = "-gcflags=std="
)

// manual writes the manual pages of all commands.
func (r release) manual() error {
	dir := filepath.Join(r.stage, "man")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := command([]string{"VERSION=" + r.version, fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix())},
		"go", "test", "-count=1", "./cmd/podstead", "-run", "^TestManual$", "-manual", dir)
	if err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) == 0 {
		return errors.Join(err, errors.New("no manual pages were written"))
	}
	for _, page := range pages {
		if err := compress(page); err != nil {
			return err
		}
	}
	return nil
}

// completions writes the completion scripts, with a program for this machine.
func (r release) completions() error {
	program := filepath.Join(r.stage, "podstead-"+runtime.GOARCH)
	if err := command([]string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-buildvcs=false", "-tags", buildTags,
		inlineNone, inlineStd, "-ldflags", "-s -w", "-o", program, "./cmd/podstead"); err != nil {
		return err
	}
	for shell, file := range map[string]string{"bash": "podstead", "zsh": "_podstead", "fish": "podstead.fish"} {
		script, err := exec.Command(program, "completion", shell).Output()
		if err != nil {
			return fmt.Errorf("completion %s: %w", shell, err)
		}
		dir := filepath.Join(r.stage, "completions", shell)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, file), script, 0o644)); err != nil {
			return err
		}
	}
	return os.Remove(program)
}

// command runs a program with additional variables, and prints what it prints on failure only.
func command(env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
