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
	// SandboxImage is the image of the container that holds a sandbox. containerd 2 does not report it.
	SandboxImage string
	// CNIConfDir and CNIBinDirs are where it searches for networks and plugins.
	CNIConfDir string
	CNIBinDirs []string
	// EnableCDI is false if the runtime does not inject CDI devices; nil if it does not say.
	EnableCDI *bool
	// RestrictOOMScoreAdj reports that the runtime never gives a process a lower OOM score than its own, for which it
	// would need CAP_SYS_RESOURCE; nil if it does not say.
	RestrictOOMScoreAdj *bool
}

// RuntimeConfig returns the runtime's configuration. CRI does not define it:
// containerd and CRI-O put it into their verbose status.
func (c *Client) RuntimeConfig(ctx context.Context) (RuntimeConfig, error) {
	info, err := c.verboseInfo(ctx)
	if err != nil {
		return RuntimeConfig{}, err
	}
	var config struct {
		EnableCDI           *bool  `json:"enableCDI"`
		RestrictOOMScoreAdj *bool  `json:"restrictOOMScoreAdj"`
		SandboxImage        string `json:"sandboxImage"`
		CNI                 struct {
			ConfDir string   `json:"confDir"`
			BinDir  string   `json:"binDir"`
			BinDirs []string `json:"binDirs"`
		} `json:"cni"`
	}
	// A field of another type than expected is left out; the others are decoded.
	_ = json.Unmarshal([]byte(info["config"]), &config)
	s := RuntimeConfig{SandboxImage: config.SandboxImage, EnableCDI: config.EnableCDI, CNIConfDir: config.CNI.ConfDir,
		CNIBinDirs: config.CNI.BinDirs, RestrictOOMScoreAdj: config.RestrictOOMScoreAdj}
	if dir := config.CNI.BinDir; dir != "" && !slices.Contains(s.CNIBinDirs, dir) {
		s.CNIBinDirs = append(s.CNIBinDirs, dir)
	}
	return s, nil
}

// verboseInfo returns the runtime's verbose status, nil if it reports none.
func (c *Client) verboseInfo(ctx context.Context) (map[string]string, error) {
	a, err := read(ctx, c, operation{verb: "get the runtime's configuration"}, runtimeapi.RuntimeServiceClient.Status,
		&runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return nil, err
	}
	return a.GetInfo(), nil
}
