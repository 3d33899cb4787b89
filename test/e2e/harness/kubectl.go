package harness

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/podstead/podstead/test/testbed"
)

// Kubectl runs the real kubectl against a daemon.
type Kubectl struct {
	Node   *Node
	Config string
	// binary is another kubectl than the current one.
	Binary string
	// env is the additional environment.
	Env []string
}

// NewKubectl gets a kubeconfig from a running daemon.
func NewKubectl(n *Node, more ...string) *Kubectl {
	n.T.Helper()
	k := &Kubectl{Node: n, Config: filepath.Join(n.T.TempDir(), "config")}
	args := append([]string{"kubeconfig", "--api-socket", n.Socket(), "--output", k.Config}, more...)
	if out, err := n.Command(args...).CombinedOutput(); err != nil {
		n.T.Fatalf("podstead %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	n.hasKubeconfig = true
	return k
}

// Command returns a command that runs kubectl.
func (k *Kubectl) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, cmp.Or(k.Binary, testbed.Kubectl()),
		append([]string{"--kubeconfig", k.Config}, args...)...)
	cmd.Env = append(append(os.Environ(), "HOME="+filepath.Dir(k.Config)), k.Env...)
	return cmd
}

// Run runs kubectl and returns its output.
func (k *Kubectl) Run(args ...string) (string, error) {
	k.Node.T.Helper()
	out, err := k.Command(k.Node.T.Context(), args...).CombinedOutput()
	return string(out), err
}

// Must runs kubectl and checks that the output contains each word.
func (k *Kubectl) Must(words []string, args ...string) string {
	k.Node.T.Helper()
	out, err := k.Run(args...)
	if err != nil {
		k.Node.T.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			k.Node.T.Errorf("kubectl %s: no %q in:\n%s", strings.Join(args, " "), w, out)
		}
	}
	return out
}
