// Package devices is the node's devices in the list of what a pod needs of its node.
//
// It owns how a pod waits for devices, is refused them and gets them: the reasons in its status, and what
// they add to its containers. It reads the devices through the interface that it declares, and never
// knows a device plugin.
package devices
