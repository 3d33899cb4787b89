// Package architecture holds the tests that keep the rooms of the tree apart.
//
// It owns the table of which room may import which. It reads the output of
// `go list` and the doc.go of each package, and never changes anything.
package architecture
