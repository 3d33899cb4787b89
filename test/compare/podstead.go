package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/podstead/podstead/test/testbed"
)

// productVar passes the path of the built program into the namespaces.
const productVar = "PODSTEAD_TESTBED_PRODUCT"

// build builds podstead as a release does, and what the test bed needs.
func build() error {
	root := testbed.SourceRoot()
	out := filepath.Join(testbed.Dir(), "bin", "podstead")
	version, err := exec.Command("git", "-C", root, "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return fmt.Errorf("git describe: %w", err)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags",
		"-s -w -X github.com/podstead/podstead/internal/buildinfo.version="+strings.TrimSpace(string(version)), "-o", out,
		"./cmd/podstead")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build podstead: %w\n%s", err, msg)
	}
	return errors.Join(os.Setenv(productVar, out), testbed.Build())
}

// podstead is this project's daemon.
type podstead struct {
	rt   *testbed.Runtime
	node *testbed.Node
}

func (p *podstead) name() string   { return "podstead" }
func (p *podstead) binary() string { return testbed.Product() }

func (p *podstead) version(ctx context.Context) (string, error) {
	return output(exec.CommandContext(ctx, p.binary(), "version"))
}

func (p *podstead) start(ctx context.Context, round int) (err error) {
	if p.node, err = testbed.NewNode(fmt.Sprintf("podstead%d", round), p.rt.Endpoint()); err != nil {
		return err
	}
	return p.node.Start(ctx)
}

func (p *podstead) create(_ context.Context, pods []pod) error {
	return writeManifests(p.node.Manifests, pods)
}

func (p *podstead) replace(_ context.Context, edited pod) error {
	return writeManifests(p.node.Manifests, []pod{edited})
}

func (p *podstead) remove(_ context.Context, old pod) error { return p.node.Remove(old.name + ".yaml") }

func (p *podstead) processes() (daemon, runtime int, monitor string) {
	return p.node.Pid(), p.rt.Pid(), "containerd-shim-runc-v2"
}

func (p *podstead) stop(ctx context.Context) error {
	if p.node == nil {
		return nil
	}
	p.node.Kill()
	return p.rt.CRI.RemoveAll(ctx)
}

// output runs a command and returns what it prints, without the space around it.
func output(cmd *exec.Cmd) (string, error) {
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}
