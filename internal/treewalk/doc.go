// Package treewalk visits the files of a directory that containers, or other programs without rights of their own, can
// write to, and may be changing meanwhile.
//
// It owns the bounds of such a walk: no more descriptors and no more memory than a fixed depth takes, a check of the
// context for each batch of entries, and, where the caller asks for it, a number of files. It reads directories by
// descriptors. It never follows a link, crosses a mount point or changes anything.
package treewalk
