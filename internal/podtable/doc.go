// Package podtable renders the cells of a table of pods as kubectl does.
//
// It owns the texts of these cells, for the tables of the API and of the command line. It
// reads only the pods that it is given, and never changes them.
package podtable
