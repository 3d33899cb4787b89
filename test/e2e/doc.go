// Package e2e runs the daemon's real binary on real runtimes and looks at what
// happens from outside: the runtime through plain CRI calls, processes through
// /proc, pods through their ports.
//
// It needs root and what test/setup.sh installs; `make e2e` brings both together.
// It owns nothing but tests.
package e2e
