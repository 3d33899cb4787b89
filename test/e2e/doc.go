// Package e2e runs the daemon's real binary on real container runtimes and checks the results
// from outside: the runtime through plain CRI calls, processes through /proc, pods through
// their ports.
//
// It needs root and what test/setup.sh installs; `make e2e` does both. It owns only tests.
package e2e
