// Package nodestatus describes this box as a v1.Node.
//
// It owns that description, what it takes from the host for it (name and version
// of the system, kernel, boot and machine id, swap), and the inventory of what
// the runtime has. It reads the rest from its Input, and never changes anything
// on the host or in the runtime.
package nodestatus
