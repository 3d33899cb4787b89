// Package plugins finds the plugins of the node that register through sockets in a directory, as
// the kubelet's plugin watcher does (API pluginregistration v1).
//
// It owns the directory, its watch, and the registration of each socket in it. It reads what
// plugins respond to GetInfo. It never knows what a plugin is for: a Handler takes the plugins of its
// type, and a plugin of another type gets the response that there is none. It keeps no connection to a
// plugin, and nothing but the watch while no plugin registers.
package plugins
