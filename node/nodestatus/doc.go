// Package nodestatus describes this node as a v1.Node.
//
// It owns the description, its capacity, what it reads from the host for it
// (operating system, kernel, machine and boot ID, swap), and the inventory of the
// runtime. It reads the rest from its Input, and never changes anything on the
// host or in the runtime.
package nodestatus
