package firewall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podstead/podstead/internal/boundedfile"
)

// Chain is the chain of the table filter that contains the rule. The chain INPUT jumps to it
// first, so that no rule of the host accepts the packets before.
const Chain = "PODSTEAD-LOCALNET"

// Remove is the shell command that removes the rule and its chain.
const Remove = "iptables -D INPUT -j " + Chain + "; iptables -F " + Chain + "; iptables -X " + Chain

var (
	jump = []string{"INPUT", "-j", Chain}
	// drop matches packets from a link to a loopback address, except those of known
	// connections and of host ports that a DNAT rule leads to a loopback address.
	drop = []string{Chain, "-d", "127.0.0.0/8", "!", "-i", "lo", "-m", "conntrack", "!", "--ctstate",
		"RELATED,ESTABLISHED,DNAT", "-j", "DROP"}
)

// Iptables runs the command iptables with arguments. The error contains what it printed.
type Iptables func(ctx context.Context, args ...string) error

// Localnet installs the rule. Its methods may be called concurrently.
type Localnet struct {
	iptables Iptables
	mu       sync.Mutex
}

// NewLocalnet returns a Localnet. nil runs the program of the host, which the CNI plugins use
// too: with the same backend (nf_tables or legacy) the rules are in one place.
func NewLocalnet(iptables Iptables) *Localnet {
	if iptables == nil {
		iptables = program("iptables")
	}
	return &Localnet{iptables: iptables}
}

// Ensure installs what is missing of the rule. If all is there, it changes nothing.
func (l *Localnet) Ensure(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ensureChain(ctx, l.call, Chain, [][]string{drop}, jump)
}

// ensureChain creates what is missing of a chain, its rules, and the jump to it, which comes
// first in its chain. call runs iptables with a command and a rule.
func ensureChain(ctx context.Context, call func(ctx context.Context, command string, rule ...string) error,
	chain string, rules [][]string, jump []string) error {
	for _, rule := range rules {
		if call(ctx, "-C", rule...) == nil {
			continue
		}
		// The chain may exist without the rule. Then this error does not matter, and
		// otherwise the next call fails as well.
		created := call(ctx, "-N", chain)
		if err := call(ctx, "-A", rule...); err != nil {
			return errors.Join(err, created)
		}
	}
	if call(ctx, "-C", jump...) != nil {
		return call(ctx, "-I", jump...)
	}
	return nil
}

// Installed reports whether the rule is in force.
func (l *Localnet) Installed(ctx context.Context) bool {
	return l.call(ctx, "-C", drop...) == nil && l.call(ctx, "-C", jump...) == nil
}

// call runs iptables with a command (-C, -A …) and a rule. It waits up to 5 s for another
// program that changes rules (with the legacy backend, which locks).
func (l *Localnet) call(ctx context.Context, command string, rule ...string) error {
	return l.iptables(ctx, append([]string{"-w", "5", command}, rule...)...)
}

// Enabled returns the interfaces with route_localnet, sorted, without lo, which always delivers
// to loopback addresses. dir is /proc/sys/net/ipv4/conf. The entries all and default count as
// interfaces: they apply to every interface, and to every new one.
func Enabled(dir string) (interfaces []string) {
	entries, _ := os.ReadDir(dir) // no directory: no IPv4
	for _, e := range entries {
		value, err := boundedfile.Head(filepath.Join(dir, e.Name(), "route_localnet"), 16)
		if err == nil && e.Name() != "lo" && strings.TrimSpace(string(value)) == "1" {
			interfaces = append(interfaces, e.Name())
		}
	}
	slices.Sort(interfaces)
	return interfaces
}

// runTimeout limits one run of iptables.
const runTimeout = 10 * time.Second

// program returns what runs iptables or ip6tables.
func program(name string) Iptables {
	return func(ctx context.Context, args ...string) error {
		program, err := find(name)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, runTimeout)
		defer cancel()
		out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, bytes.TrimSpace(out))
		}
		return nil
	}
}

// find returns the path of a program. The PATH of a service may lack the directories of
// administrators.
func find(program string) (string, error) {
	for _, name := range []string{program, "/usr/sbin/" + program, "/sbin/" + program} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed", program)
}
