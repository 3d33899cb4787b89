// Package harness is what the end-to-end tests of several subjects share: a daemon under test with its runtime
// (Node), machines with systemd, clusters, drivers, and the assertions about them.
//
// It owns what it starts, and ends it with the test. It reads what the daemon serves, the runtime through plain CRI
// calls, and the kernel. It never holds a test, or what only one subject uses: that is in the package of the subject.
package harness
