package config

import (
	"net"
	"path/filepath"
	"strconv"
)

// The directories in which every device plugin looks for the registration socket, and in which
// plugins for a kubelet create theirs.
const (
	devicePluginDir = "/var/lib/kubelet/device-plugins"
	pluginRegistry  = "/var/lib/kubelet/plugins_registry"
)

func (o *Options) pathSettings() []setting {
	p := &o.Paths
	return []setting{
		{flag: "hostname-override", own: "hostnameOverride", value: text(&o.Node, ""),
			help: "node `name` (default: the hostname at the first start, which is then kept)"},
		{flag: "root-dir", own: "rootDir", value: file(&p.Root, DefaultRoot),
			help: "`directory` of the daemon's persistent state"},
		{flag: "pod-logs-dir", field: "podLogsDir", value: file(&p.PodLogs, DefaultPodLogs),
			help: "`directory` of container logs"},
		{flag: "container-logs-dir", own: "containerLogsDir", value: file(&p.ContainerLogs, DefaultContainerLogs),
			help: "`directory` of symlinks to container logs, for log collectors"},
		{flag: "device-plugin-dir", own: "devicePluginDir", value: file(&p.DevicePlugins, ""),
			help: "`directory` of the registration socket of device plugins, and of their sockets " +
				"(default: " + devicePluginDir + "; with another --root-dir, device-plugins in it)"},
		{flag: "plugin-registration-dir", own: "pluginRegistrationDir", value: file(&p.PluginRegistry, ""),
			help: "`directory` of the sockets with which plugins register (default: " + pluginRegistry + "; with another " +
				"--root-dir, plugins_registry in it)"},
		o.localDevices(),
	}
}

// checkPaths sets the defaults of paths that depend on others.
func (o *Options) checkPaths(t *table) {
	p := &o.Paths
	if p.Root == "" || p.PodLogs == "" || p.ContainerLogs == "" || o.API.Socket == "" {
		t.fail("%s, %s, %s and %s must not be empty", t.at(&p.Root), t.at(&p.PodLogs), t.at(&p.ContainerLogs),
			t.at(&o.API.Socket))
	}
	inRoot := func(path *string, usual, name string) (set bool) {
		if *path != "" {
			return true
		}
		if *path = usual; usual == "" || p.Root != DefaultRoot {
			*path = filepath.Join(p.Root, name)
		}
		return false
	}
	p.devicePluginsSet = inRoot(&p.DevicePlugins, devicePluginDir, "device-plugins")
	p.pluginRegistrySet = inRoot(&p.PluginRegistry, pluginRegistry, "plugins_registry")
	inRoot(&o.Runtime.Archives, "", "image-archives")
}

const (
	defaultHealthHost = "127.0.0.1"
	defaultHealthPort = 10248
)

// maxSocketPath is sun_path of unix(7), which has 108 bytes including the NUL byte: the socket is
// created under a slightly longer temporary name.
const maxSocketPath = 99

func (o *Options) apiSettings() []setting {
	return []setting{
		{
			flag: "api-socket", own: "apiSocket", value: file(&o.API.Socket, DefaultSocket),
			check: func(s *setting) {
				if n := len(o.API.Socket); n > maxSocketPath {
					s.fail(": the path has %d bytes; at most %d are possible", n, maxSocketPath)
				}
			},
			help: "`path` of the unix socket of the API; its owner and group have access",
		},
		{flag: "healthz-bind-address", field: "healthzBindAddress", value: text(&o.healthHost, defaultHealthHost),
			check: isIP(&o.healthHost),
			help:  "`address` of the healthz server"},
		{
			flag: "healthz-port", field: "healthzPort", value: integer(&o.healthPort, defaultHealthPort, 0, maxPort),
			check: func(s *setting) {
				if isPort(&o.healthPort)(s); o.healthPort > 0 {
					o.API.HealthAddress = net.JoinHostPort(o.healthHost, strconv.Itoa(o.healthPort))
				}
			},
			help: "`port` of the healthz server; 0 for none",
		},
	}
}
