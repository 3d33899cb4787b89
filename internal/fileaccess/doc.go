// Package fileaccess reports who else has access to a file.
//
// It owns the rule who may change what root relies on. It reads the owner and the mode of a
// file, and whether a process has it open for writing. It never changes a file.
package fileaccess
