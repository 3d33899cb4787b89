package cri

import (
	"context"
	"encoding/json"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RuntimeConfig is what a runtime reports about its configuration. A value that
// it does not report is empty.
type RuntimeConfig struct {
	// SandboxImage is the image of the container that holds a sandbox.
	SandboxImage string
	// CNIConfDir and CNIBinDirs are where it searches for networks and plugins.
	CNIConfDir string
	CNIBinDirs []string
}

// RuntimeConfig returns the runtime's configuration. CRI does not define it:
// containerd and CRI-O put it into their verbose status.
func (c *Client) RuntimeConfig(ctx context.Context) (RuntimeConfig, error) {
	text, err := c.verboseConfig(ctx)
	if err != nil {
		return RuntimeConfig{}, err
	}
	var config struct {
		SandboxImage string `json:"sandboxImage"`
		CNI          struct {
			ConfDir string   `json:"confDir"`
			BinDir  string   `json:"binDir"`
			BinDirs []string `json:"binDirs"`
		} `json:"cni"`
	}
	// A field of another type than expected is left out; the others are decoded.
	_ = json.Unmarshal([]byte(text), &config)
	s := RuntimeConfig{SandboxImage: config.SandboxImage, CNIConfDir: config.CNI.ConfDir, CNIBinDirs: config.CNI.BinDirs}
	if dir := config.CNI.BinDir; dir != "" && !slices.Contains(s.CNIBinDirs, dir) {
		s.CNIBinDirs = append(s.CNIBinDirs, dir)
	}
	return s, nil
}

// verboseConfig returns the configuration as the runtime encodes it, empty if it
// reports none.
func (c *Client) verboseConfig(ctx context.Context) (string, error) {
	a, err := read(ctx, c, operation{verb: "get the runtime's configuration"}, runtimeapi.RuntimeServiceClient.Status, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return "", err
	}
	return a.GetInfo()["config"], nil
}
