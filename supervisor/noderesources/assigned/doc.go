// Package assigned is the exclusive CPUs and the memory of NUMA nodes, with their topology, in the list of
// what a pod needs of its node.
//
// It owns how a pod is refused them, and why their amounts cannot be resized. It reads the assignments
// through the interface that it declares, and never chooses CPUs or memory.
package assigned
