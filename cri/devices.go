package cri

import (
	"context"
	"fmt"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/internal/device"
)

// deviceNodes returns device nodes as CRI has them.
func deviceNodes(nodes []device.Node) []*runtimeapi.Device {
	var list []*runtimeapi.Device
	for _, n := range nodes {
		list = append(list, &runtimeapi.Device{HostPath: n.HostPath, ContainerPath: n.ContainerPath,
			Permissions: n.Permissions})
	}
	return list
}

func cdiDevices(names []string) []*runtimeapi.CDIDevice {
	var list []*runtimeapi.CDIDevice
	for _, name := range names {
		list = append(list, &runtimeapi.CDIDevice{Name: name})
	}
	return list
}

// cdiSince is the first version of a runtime that reads ContainerConfig.CDI_devices, CRI of
// Kubernetes 1.27. An earlier one starts the container without the devices.
var cdiSince = map[string]string{containerd: "1.7", crio: "1.28"}

// checkCDI returns an error for CDI devices that the runtime is not known to support. The node's
// devices name them, not the manifest, so that they are not in fieldSupports.
func (t *transaction) checkCDI(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	k, err := t.runtime.Capabilities(ctx)
	if err != nil {
		return fmt.Errorf("failed to determine whether the runtime supports CDI devices: %w", err)
	}
	if !atLeast(k.Version.Version, cdiSince[k.Name]) {
		f := fieldSupport{since: cdiSince}
		return fmt.Errorf("the devices of the container are CDI devices (%s), which are not supported by this runtime, %s "+
			"%s; they require %s",
			strings.Join(names, ", "), k.Name, k.Version.Version, f.needs())
	}
	if k.Name != containerd || atLeast(k.Version.Version, cdiAlwaysEnabled) {
		return nil
	}
	config, err := t.runtime.RuntimeConfig(ctx)
	if err != nil {
		return fmt.Errorf("failed to determine whether the runtime injects CDI devices: %w", err)
	}
	if config.EnableCDI != nil && !*config.EnableCDI {
		return fmt.Errorf(
			`the devices of the container are CDI devices (%s), and this runtime, %s %s, does not inject them; set enable_cdi = true in [plugins."io.containerd.grpc.v1.cri"] of its configuration, and restart it`,
			strings.Join(names, ", "), k.Name, k.Version.Version)
	}
	return nil
}

// cdiAlwaysEnabled is the first containerd that injects CDI devices unless it is configured not
// to. An earlier one has enable_cdi = false by default.
const cdiAlwaysEnabled = "2.0"
