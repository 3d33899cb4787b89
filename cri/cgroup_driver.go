package cri

import (
	"context"
	"encoding/json"
	"errors"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The cgroup drivers.
const (
	CgroupDriverSystemd  = "systemd"
	CgroupDriverCgroupfs = "cgroupfs"
)

// CgroupDriver returns the runtime's cgroup driver: "systemd" or "cgroupfs".
// Before containerd 2 and CRI-O 1.28 there is no call for it; containerd reports
// it in the configuration of its verbose status. It is empty for a runtime that
// does not report it.
func (c *Client) CgroupDriver(ctx context.Context) (string, error) {
	a, err := read(ctx, c, operation{verb: "get the runtime's configuration"},
		runtimeapi.RuntimeServiceClient.RuntimeConfig, &runtimeapi.RuntimeConfigRequest{})
	switch {
	case errors.Is(err, ErrUnimplemented):
		return c.cgroupDriverFromConfig(ctx)
	case err != nil:
		return "", err
	case a.GetLinux().GetCgroupDriver() == runtimeapi.CgroupDriver_CGROUPFS:
		return CgroupDriverCgroupfs, nil
	}
	return CgroupDriverSystemd, nil
}

// cgroupDriverFromConfig reads the driver from containerd's configuration. The
// default runtime handler's counts.
func (c *Client) cgroupDriverFromConfig(ctx context.Context) (string, error) {
	info, err := c.verboseInfo(ctx)
	if err != nil {
		return "", err
	}
	var config struct {
		SystemdCgroup bool `json:"systemdCgroup"`
		Containerd    struct {
			DefaultRuntimeName string `json:"defaultRuntimeName"`
			Runtimes           map[string]struct {
				Options map[string]any `json:"options"`
			} `json:"runtimes"`
		} `json:"containerd"`
	}
	if err := json.Unmarshal([]byte(info["config"]), &config); err != nil {
		return "", nil // another runtime's, or none
	}
	chosen, ok := config.Containerd.Runtimes[config.Containerd.DefaultRuntimeName]
	if !ok {
		return "", nil
	}
	if systemd, _ := chosen.Options["SystemdCgroup"].(bool); systemd || config.SystemdCgroup {
		return CgroupDriverSystemd, nil
	}
	return CgroupDriverCgroupfs, nil
}
