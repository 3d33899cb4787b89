// Package ipam owns the cleanup of what a power cut leaves of the networks of pods: reserved
// addresses, and results that cannot be parsed.
//
// The CNI plugin host-local reserves an address with a file of that name, which contains the
// ID of the sandbox. After a power cut the file can be empty, and then no release finds it:
// the address is lost, and after many cuts the network has none left.
//
// The runtime's CNI library keeps the result of each network in a file. If that is empty, the
// runtime can neither stop nor remove the sandbox.
//
// It reads the directory of host-local under the lock of the plugin. It removes empty files
// of an earlier boot, to which no running container can belong. It never removes another file.
package ipam
