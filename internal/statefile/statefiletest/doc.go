// Package statefiletest is a disk with faults, and the test that every store of state files has to pass on it.
//
// It owns the faults: the daemon is killed, or the power fails, after any operation; one operation fails, or all that
// follow; a file is damaged, empty, too large or of a newer version. It reads the files of a test's directory. It is
// for tests only, and product code never imports it.
package statefiletest
