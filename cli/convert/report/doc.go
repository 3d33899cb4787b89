// Package report collects what a conversion has to say about its input, line by line.
//
// It owns the three severities (error, lost, note) and the form of the lines. It reads positions
// from the package tree. It never decides what is lost.
package report
