// Package testbed provides real components for the tests, the benchmark and the demo: a
// private containerd of each supported version, an image registry on loopback with small
// images, etcd and an API server, a plain CRI client that is independent of the product's, and
// the daemon's binary as a process that can be killed.
//
// Everything runs in separate process, mount, network, IPC and UTS namespaces (see Isolate).
// When the program ends, for whatever reason, the kernel removes all of it. A killed program
// leaves only its directory and empty cgroups, which the next program removes.
//
// The package reads the components that test/setup.sh installs and reports missing ones. The
// product never imports it.
package testbed
