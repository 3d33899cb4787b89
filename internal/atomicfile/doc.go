// Package atomicfile replaces small files of the daemon so that a reader finds
// either the old content or the new content, complete, whenever the writer stops.
//
// It owns the name under which a file is written before it is renamed. It reads
// nothing and never creates a directory.
package atomicfile
