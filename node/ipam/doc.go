// Package ipam owns the release of addresses of pods that a power cut left reserved.
//
// The CNI plugin host-local reserves an address with a file of that name, which contains the
// ID of the sandbox. After a power cut the file can be empty, and then no release finds it:
// the address is lost, and after many cuts the network has none left.
//
// It reads the directory of host-local under the lock of the plugin. It removes empty files
// of an earlier boot, to which no running container can belong. It never removes another file.
package ipam
