// Package suggest finds the name that was most likely meant by a misspelled one.
//
// It owns the edit distance between two names. It reads only its arguments and
// never decides whether a name is valid.
package suggest
