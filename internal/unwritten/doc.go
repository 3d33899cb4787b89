// Package unwritten knows which files of the daemon could not be written, and repeats
// writes that nothing else repeats.
//
// It owns the list of such files. It reads and writes no file itself, and it never
// stops anything: a file that cannot be written costs history or a restart's knowledge,
// never a pod.
package unwritten
