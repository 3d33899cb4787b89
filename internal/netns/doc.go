// Package netns runs functions in network namespaces of other processes.
//
// It owns the threads that enter them. It reads the namespace's file that it is given, and it
// never changes the namespace of a thread that runs anything else, nor that of the main thread:
// /proc/self/net and /proc/net are those of the main thread.
package netns
