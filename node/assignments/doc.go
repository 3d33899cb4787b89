// Package assignments keeps what the managers of CPUs and memory have assigned to pods, in memory and in
// their files.
//
// It owns when that is written, and the form of the files: a version, the policy and the boot in which they
// were written, since assignments are void after a boot, when no container runs. It reads these files. It
// never decides what is assigned.
package assignments
