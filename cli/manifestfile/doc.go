// Package manifestfile finds and reads manifest files for validate, diff and wait.
//
// It owns the choice of the files of a directory, which is the daemon's.
//
// It reads files up to the daemon's limit of size. It never decodes them.
package manifestfile
