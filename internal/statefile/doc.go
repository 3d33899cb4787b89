// Package statefile owns how podstead keeps state on disk: bounded reads, the check of the version, the atomic and
// synced replacement of a file, the second copy where a loss would be worse than the write, the repetition of a write
// that failed, and what is done with a damaged file and with one of a newer podstead. It is the only place that
// replaces a state file.
//
// A Format is a kind of file. Each one is a variable of the package that owns the state, and a row of
// docs/state-files.md. A File is one file of a Format, and a Dir has a File for each key. A Disk is where they are: the
// operating system's, or that of a test, which fails or ends the daemon at any operation (statefiletest).
//
// It reads and writes files on behalf of their owners. It never knows what is in a file but its version.
package statefile
