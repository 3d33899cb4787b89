// Package devices allocates the node's devices to containers.
//
// It owns the registration socket of device plugins (API v1beta1) and its directory, the
// connections to the plugins, and the checkpoint of which container has which devices. It reads
// what plugins report of their devices, the device nodes of the host that the configuration names,
// and the resources of pods. It never decides when a pod
// starts and never ends one: it reports whether a pod can have its devices, and notifies when
// the response may have changed.
//
// Locks: Manager.mu protects the state and is never held during a call to a plugin or a write
// of the checkpoint. A plugin that hangs delays only the pods that request its devices.
package devices
