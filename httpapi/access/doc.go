// Package access says who may use what over HTTP.
//
// It owns the classes that the table of routes is made of, the roles, which
// are sets of classes, and what is known of the caller of a request. It reads
// what a request proves of its sender, and never answers one itself.
package access
