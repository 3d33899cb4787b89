// Package resourcemanagers is the managers that assign exclusive CPUs and memory of NUMA nodes to containers,
// with the topology manager that aligns them.
//
// It owns which of them a node has, and stands for those that it has not. It reads the topology of the host
// and the state files of the managers when it opens them. It never decides what is assigned: the managers do.
package resourcemanagers
