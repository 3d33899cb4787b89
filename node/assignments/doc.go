// Package assignments reads and writes the files in which the managers of CPUs and memory keep what
// they assigned to pods.
//
// It owns the form of the files: a version, the policy and the boot in which they were written, since
// assignments are void after a boot, when no container runs. It never decides what is assigned.
package assignments
