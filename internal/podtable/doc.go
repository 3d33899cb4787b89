// Package podtable makes the cells of a table of pods, in kubectl's words.
//
// It owns those words, for the API's tables and for the command line alike. It
// reads nothing but the pods it is given, and never changes them.
package podtable
