// Package atomicfile replaces small files of the daemon's own such that whoever
// reads one finds the old content or the new, whole, whatever ends in between.
//
// It owns the name under which a file is written before it has its own. It
// reads nothing, and never makes a folder.
package atomicfile
