// Package buildinfo reports which program this is: its version, and the commit that it was built from.
//
// It owns the variables that the linker sets. It reads what the Go tool recorded in the binary. It never
// reads a file.
package buildinfo
