// Package testbed gives tests, the benchmark and the demo real parts to work on: a
// private containerd of either version, a registry on loopback with small
// images, a plain CRI client to look at the runtime without the product's
// eyes, and the daemon's binary as a process that can be killed.
//
// Everything runs in namespaces of its own (see Isolate): process, mount,
// network, IPC and host name. When the program ends, however it ends, the kernel
// takes all of it away; what stays on disk of a bed whose program was killed is
// removed by the next one.
//
// It reads the parts that test/setup.sh installs and names what is missing. It
// is never imported by the product.
package testbed
