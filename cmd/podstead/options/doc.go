// Package options settles what `podstead run` is asked to do.
//
// It owns the flags, their defaults, and the order in which a setting is
// looked for: flag, then the KubeletConfiguration file, then the default. It
// reads the command line and that one file. It never starts anything.
package options
