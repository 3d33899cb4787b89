// Package architecture holds the tests that enforce the import rules between the directories of
// the tree (the packages of docs/architecture.md).
//
// It owns the table of which package may import which. It reads the output of
// `go list` and the doc.go of each package, and never changes anything.
package architecture
