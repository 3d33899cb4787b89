// Package node describes this box as a v1.Node.
//
// It owns that description and what it takes from the host for it: name and
// version of the system, kernel, boot and machine id. It reads the rest from
// its Input, and never changes anything on the host.
package node
