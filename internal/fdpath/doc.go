// Package fdpath opens and changes files by descriptors, so that a container which changes a tree meanwhile cannot
// redirect what is done.
//
// It owns these calls. It reads the mount of a descriptor, and never follows a link.
package fdpath
