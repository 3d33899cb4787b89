// Package binding chooses the PersistentVolume of a claim, as the volume controller of a
// cluster does, except that a volume is reserved for the claim that names it.
//
// It owns the rules: which declared volume fits a claim, which class provisions one, and
// what to say if neither does. It reads only the values that it is given.
//
// It never reads or writes a file, never looks up an object, and never changes what is
// bound.
package binding
