// Package e2e runs the daemon's real binary on real container runtimes and checks the results
// from outside: the runtime through plain CRI calls, processes through /proc, pods through
// their ports.
//
// Each directory is a subject, which runs alone with `make e2e SUBJECT=name`, in namespaces and
// on runtimes of its own; harness is what they share. The tests need root and what
// test/setup.sh installs; `make e2e` does both. The package owns only tests.
package e2e
