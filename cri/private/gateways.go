package private

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Network returns the directory of the network config that the private containerd uses, and
// whether podstead created that network. It is valid once the containerd was started.
func (c Config) Network() (dir string, own bool, err error) {
	text, err := os.ReadFile(c.file())
	if err != nil {
		return "", false, fmt.Errorf("failed to read the config of the private containerd: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		if key != "conf_dir" {
			continue
		}
		if dir, err = strconv.Unquote(value); err != nil {
			return "", false, fmt.Errorf("failed to read conf_dir in the config of the private containerd: %w", err)
		}
		return dir, dir != c.CNIConfDir, nil
	}
	return "", false, fmt.Errorf("%s names no conf_dir", c.file())
}

// cniNetwork is what a network config reports about the host's address on a bridge.
type cniNetwork struct {
	Type             string `json:"type"`
	IsGateway        bool   `json:"isGateway"`
	IsDefaultGateway bool   `json:"isDefaultGateway"`
	IPAM             struct {
		Type string `json:"type"`
		cniRange
		Ranges [][]cniRange `json:"ranges"`
	} `json:"ipam"`
}

type cniRange struct {
	Subnet  string `json:"subnet"`
	Gateway string `json:"gateway"`
}

// Gateways returns the addresses that the host has on the bridge of a pod network, each with the
// length of the network's prefix. It is an error if the first config of the directory, which
// runtimes use, is not of a bridge whose addresses the config reports.
func Gateways(dir string) ([]netip.Prefix, error) {
	file, err := firstNetwork(dir)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("failed to read the CNI config: %w", err)
	}
	var config struct {
		cniNetwork
		Plugins []cniNetwork `json:"plugins"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("%s is not a valid CNI config: %w", file, err)
	}
	for _, plugin := range append(config.Plugins, config.cniNetwork) {
		if plugin.Type != "bridge" || !plugin.IsGateway && !plugin.IsDefaultGateway || plugin.IPAM.Type != "host-local" {
			continue
		}
		ranges := plugin.IPAM.Ranges
		if plugin.IPAM.Subnet != "" {
			ranges = append(ranges, []cniRange{plugin.IPAM.cniRange})
		}
		var gateways []netip.Prefix
		for _, set := range ranges {
			for _, r := range set {
				gateway, err := r.gateway()
				if err != nil {
					return nil, fmt.Errorf("%s: %w", file, err)
				}
				gateways = append(gateways, gateway)
			}
		}
		if len(gateways) > 0 {
			return gateways, nil
		}
	}
	return nil, fmt.Errorf("%s does not configure a bridge with an address of the host (isGateway, and ipam host-local)",
		file)
}

// firstNetwork returns the config that runtimes use: the first by name.
func firstNetwork(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("failed to read the CNI config directory: %w", err)
	}
	for _, e := range entries {
		if slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(e.Name())) {
			return filepath.Join(dir, e.Name()), nil
		}
	}
	return "", fmt.Errorf("%s contains no CNI config", dir)
}

// gateway returns the host's address: the first one of the subnet, unless another one is set.
func (r cniRange) gateway() (netip.Prefix, error) {
	subnet, err := netip.ParsePrefix(r.Subnet)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("the subnet %q is not a network: %w", r.Subnet, err)
	}
	address := subnet.Masked().Addr().Next()
	if r.Gateway != "" {
		if address, err = netip.ParseAddr(r.Gateway); err != nil {
			return netip.Prefix{}, fmt.Errorf("the gateway %q is not an address: %w", r.Gateway, err)
		}
	}
	return netip.PrefixFrom(address, subnet.Bits()), nil
}
