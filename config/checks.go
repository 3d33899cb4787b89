package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/node/devices"
	"github.com/podstead/podstead/node/plugins"
)

// check validates the settings, makes paths absolute and sets derived values.
func (o *Options) check() error {
	if err := errors.Join(o.Policy.check(), o.Cluster.check(o.Policy.NodeLabels, &o.Remote, o.Paths.Root)); err != nil {
		return err
	}
	if o.Manifests.Path == "" && o.Manifests.URL == "" && len(o.Manifests.OCI) == 0 {
		return fmt.Errorf("nothing to run: set --pod-manifest-path, --manifest-url or --manifest-oci")
	}
	if _, err := manifest.ParseArtifacts(o.Manifests.OCI); err != nil {
		return fmt.Errorf("--manifest-oci: %w", err)
	}
	if o.Manifests.URL != "" {
		if u, err := url.Parse(o.Manifests.URL); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return fmt.Errorf("--manifest-url: must be http://HOST/PATH or https://HOST/PATH")
		}
	}
	for name, d := range map[string]time.Duration{
		"file-check-frequency": o.Manifests.FileCheck, "http-check-frequency": o.Manifests.HTTPCheck, "runtime-request-timeout": o.Runtime.RequestTimeout,
	} {
		if d < 100*time.Millisecond {
			return fmt.Errorf("--%s=%s: must be at least 100ms, such as 20s", name, d)
		}
	}
	if d := o.API.StreamIdle; d < 0 {
		return fmt.Errorf("--streaming-connection-idle-timeout=%s: must be 0 or more", d)
	}
	if d := o.Runtime.RestartCap; d < time.Second || d > defaultRestartCap {
		return fmt.Errorf("--max-container-restart-period=%s: must be 1s to 5m", d)
	}
	if err := o.Stats.check(); err != nil {
		return err
	}
	if err := o.PodDNS.check(); err != nil {
		return err
	}
	if err := o.Rollouts.check(); err != nil {
		return err
	}
	if err := o.AutoUpdate.check(); err != nil {
		return err
	}
	if err := o.Garbage.check(); err != nil {
		return err
	}
	if (o.Runtime.Providers == "") != (o.Runtime.ProvidersBin == "") {
		return fmt.Errorf("--image-credential-provider-config and --image-credential-provider-bin-dir must be set together")
	}
	if err := o.Registries.check(); err != nil {
		return err
	}
	if err := o.checkNetwork(); err != nil {
		return err
	}
	switch o.Log.Format {
	case "auto", "text", "json":
	default:
		return fmt.Errorf("--log-format=%q: must be auto, text or json", o.Log.Format)
	}
	if err := o.Cgroups.check(); err != nil {
		return err
	}
	if err := o.CPUs.check(); err != nil {
		return err
	}
	if err := o.MemoryManager.check(); err != nil {
		return err
	}
	if len(o.CPUs.Reserved) > 0 {
		o.Cgroups.reserveCPUs(len(o.CPUs.Reserved))
	}
	if err := o.Cgroups.checkEnforced(); err != nil {
		return err
	}
	if err := errors.Join(o.Cgroups.checkHost(o.host), o.Memory.checkHost(o.host), o.CPUs.checkHost(o.host, o.Cgroups.ReservedCPU()), o.checkMemoryManager(), o.Topology.check(&o.CPUs, o.host)); err != nil {
		return err
	}
	return errors.Join(o.checkHealth(), o.checkPaths(), o.checkReservations())
}

// checkHealth validates the healthz server and sets its address.
func (o *Options) checkHealth() error {
	if o.healthPort < 0 || o.healthPort > 65535 {
		return fmt.Errorf("--healthz-port=%d: must be a port, or 0 for none", o.healthPort)
	}
	if net.ParseIP(o.healthHost) == nil {
		return fmt.Errorf("--healthz-bind-address=%q: must be an IP address", o.healthHost)
	}
	if o.healthPort > 0 {
		o.API.HealthAddress = net.JoinHostPort(o.healthHost, strconv.Itoa(o.healthPort))
	}
	return nil
}

// checkPaths makes paths absolute and validates them.
func (o *Options) checkPaths() error {
	for _, p := range []*string{&o.Manifests.Path, &o.Manifests.CAFile, &o.Registries.CAFile, &o.Runtime.Providers, &o.Runtime.ProvidersBin, &o.Network.ResolvConf, &o.Paths.Root, &o.Paths.PodLogs, &o.Paths.ContainerLogs, &o.API.Socket, &o.Paths.DevicePlugins, &o.Paths.PluginRegistry, &o.Runtime.CNIConfDir, &o.Runtime.Archives,
		&o.Remote.CertFile, &o.Remote.KeyFile, &o.Remote.ClientCAFile, &o.Remote.TokenFile} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return fmt.Errorf("failed to make %q absolute: %w", *p, err)
		}
		*p = abs
	}
	if o.Paths.Root == "" || o.Paths.PodLogs == "" || o.Paths.ContainerLogs == "" || o.API.Socket == "" {
		return fmt.Errorf("--root-dir, --pod-logs-dir, --container-logs-dir and --api-socket must not be empty")
	}
	if o.Paths.devicePluginsSet = o.Paths.DevicePlugins != ""; !o.Paths.devicePluginsSet {
		o.Paths.DevicePlugins = devices.DefaultDir
		if o.Paths.Root != DefaultRoot {
			o.Paths.DevicePlugins = filepath.Join(o.Paths.Root, "device-plugins")
		}
	}
	if o.Paths.pluginRegistrySet = o.Paths.PluginRegistry != ""; !o.Paths.pluginRegistrySet {
		o.Paths.PluginRegistry = plugins.DefaultDir
		if o.Paths.Root != DefaultRoot {
			o.Paths.PluginRegistry = filepath.Join(o.Paths.Root, "plugins_registry")
		}
	}
	if o.Runtime.Archives == "" {
		o.Runtime.Archives = filepath.Join(o.Paths.Root, "image-archives")
	}
	// sun_path of unix(7) has 108 bytes including the NUL byte; the socket is created
	// under a slightly longer temporary name.
	if len(o.API.Socket) > 99 {
		return fmt.Errorf("--api-socket: the path has %d bytes; at most 99 are possible", len(o.API.Socket))
	}
	return nil
}
