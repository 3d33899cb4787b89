// Package configfile reads the configuration of the daemon: a file of YAML documents, and
// drop-in files that change it.
//
// It owns which files are read, their documents, the place of each field in them, and how
// drop-in files are merged.
//
// It reads files. It knows no field, and never applies one.
package configfile
