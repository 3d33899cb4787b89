package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/podstead/podstead/cli"
)

// execute runs the program under a name and returns what it prints.
func execute(name string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := commandAs(name, args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.Execute()
	return out.String(), err
}

// kubeadm accepts what is printed as the version of a kubelet.
func TestVersionOfKubelet(t *testing.T) {
	// As kubeadm's preflight checks parse it.
	pattern := regexp.MustCompile(`^\s*Kubernetes v1\.36\.\d+([-\w.+]*)?\s*$`)
	for _, args := range [][]string{{"--version"}, {"--config", "/none", "--version"}} {
		if out, err := execute("/usr/bin/kubelet", args...); err != nil || !pattern.MatchString(out) {
			t.Errorf("kubelet %v: %q, %v", args, out, err)
		}
	}
	if out, err := execute("podstead", "--version"); err != nil || !strings.HasPrefix(out, "podstead version ") {
		t.Errorf("podstead --version: %q, %v", out, err)
	}
}

// Called kubelet, the program takes the flags of run without its name.
func TestKubeletRuns(t *testing.T) {
	if out, err := execute("kubelet", "--help"); err != nil || !strings.Contains(out, "--bootstrap-kubeconfig") {
		t.Errorf("kubelet --help: %q, %v", out, err)
	}
	if _, err := execute("kubelet", "--pod-manifest-path", "", "--root-dir",
		t.TempDir()); cli.Code(err) != cli.ExitUsage || !strings.Contains(err.Error(), "nothing to run") {
		t.Errorf("kubelet without a source: %v", err)
	}
	for _, args := range [][]string{{"get", "pods"}, {"--none"}} {
		if _, err := execute("kubelet", args...); cli.Code(err) != cli.ExitUsage {
			t.Errorf("kubelet %v: %v", args, err)
		}
	}
	if _, err := execute("podstead-kubelet", "--pod-manifest-path", ""); err == nil ||
		strings.Contains(err.Error(), "nothing to run") {
		t.Errorf("another name: %v", err)
	}
}
