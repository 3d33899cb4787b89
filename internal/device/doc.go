// Package device has the plain values of devices that the node allocates to containers, which
// the packages exchange that allocate, check and configure them.
//
// It owns no state. It reads the resources of containers, and never talks to a device plugin.
package device
