package firewall

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fakeTable is the table filter: the rules of its chains.
type fakeTable struct {
	mu      sync.Mutex
	chains  map[string][]string
	changes []string
	// readOnly lets every change fail.
	readOnly bool
}

func newFakeTable() *fakeTable {
	return &fakeTable{chains: map[string][]string{"INPUT": {"-j ACCEPT"}}}
}

func (f *fakeTable) run(_ context.Context, args ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(args) < 4 || args[0] != "-w" {
		return errors.New("does not wait for the lock")
	}
	command, chain, rule := args[2], args[3], strings.Join(args[4:], " ")
	rules, exists := f.chains[chain]
	if command == "-C" {
		if !slices.Contains(rules, rule) {
			return errors.New("no such rule")
		}
		return nil
	}
	if f.readOnly {
		return errors.New("permission denied")
	}
	if exists == (command == "-N") {
		return errors.New("chain exists: " + command)
	}
	f.changes = append(f.changes, strings.TrimSpace(command+" "+chain+" "+rule))
	switch command {
	case "-N":
		f.chains[chain] = nil
	case "-A":
		f.chains[chain] = append(rules, rule)
	case "-I":
		f.chains[chain] = append([]string{rule}, rules...)
	}
	return nil
}

const wantDrop = "-d 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP"

func TestEnsureInstallsWhatIsMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		lose    func(*fakeTable)
		changes []string
	}{
		"nothing is missing": {func(*fakeTable) {}, nil},
		"everything": {func(f *fakeTable) { f.chains = newFakeTable().chains },
			[]string{"-N " + Chain, "-A " + Chain + " " + wantDrop, "-I INPUT -j " + Chain}},
		"a flushed table": {func(f *fakeTable) { f.chains = map[string][]string{"INPUT": nil, Chain: nil} },
			[]string{"-A " + Chain + " " + wantDrop, "-I INPUT -j " + Chain}},
		"the rule": {func(f *fakeTable) { f.chains[Chain] = nil }, []string{"-A " + Chain + " " + wantDrop}},
		"the jump to the rule": {func(f *fakeTable) { f.chains["INPUT"] = []string{"-j ACCEPT"} },
			[]string{"-I INPUT -j " + Chain}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeTable()
			l := NewLocalnet(f.run)
			if l.Installed(t.Context()) {
				t.Error("installed before anything was done")
			}
			if err := l.Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			tc.lose(f)
			if l.Installed(t.Context()) != (tc.changes == nil) {
				t.Errorf("installed: %v, missing: %q", l.Installed(t.Context()), tc.changes)
			}
			f.changes = nil
			if err := l.Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(f.changes, tc.changes) {
				t.Errorf("changes %q, want %q", f.changes, tc.changes)
			}
			if !l.Installed(t.Context()) || f.chains["INPUT"][0] != "-j "+Chain {
				t.Errorf("the rule is not in force: %q", f.chains)
			}
		})
	}
}

// Pods that start at the same time do not install it twice.
func TestEnsureConcurrently(t *testing.T) {
	f := newFakeTable()
	l := NewLocalnet(f.run)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := l.Ensure(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(f.changes) != 3 {
		t.Errorf("changes: %q", f.changes)
	}
}

func TestEnsureReportsWhyItFailed(t *testing.T) {
	f := newFakeTable()
	f.readOnly = true
	l := NewLocalnet(f.run)
	if err := l.Ensure(t.Context()); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("error %v", err)
	}
	if l.Installed(t.Context()) {
		t.Error("installed")
	}
}

func TestEnabled(t *testing.T) {
	dir := t.TempDir()
	for name, value := range map[string]string{"lo": "1\n", "eth0": "0\n", "cni0": "1\n", "all": "1\n"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "route_localnet"), []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := Enabled(dir); !slices.Equal(got, []string{"all", "cni0"}) {
		t.Errorf("enabled on %q", got)
	}
	if got := Enabled(filepath.Join(dir, "none")); got != nil {
		t.Errorf("without IPv4: %q", got)
	}
}
