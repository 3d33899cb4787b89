// Package edit changes documents in the manifest directory.
//
// It owns where a document is written: into the file that declares its object, with the other
// documents, their order and the comments kept, or into a new file. It writes whole files by
// rename, since the daemon reads whole files, keeps their mode and owner, and writes nothing
// over a change that it has not read.
//
// It reads the files of the directory, as the file source does. It never validates a document,
// and never starts or ends a pod: the daemon finds the change as it finds one of an editor.
package edit
