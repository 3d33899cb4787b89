package private

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// neededPlugins are the plugins of the network config below.
var neededPlugins = []string{"bridge", "host-local", "portmap", "loopback"}

// cniBin returns the first directory that contains the plugins.
func (c Config) cniBin() (string, error) {
	for _, dir := range c.CNIBinDirs {
		if missingPlugins(dir) == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no CNI plugins: none of %s contains %s; install them (Debian: apt-get install "+
		"containernetworking-plugins)",
		strings.Join(c.CNIBinDirs, ", "), strings.Join(neededPlugins, ", "))
}

func missingPlugins(dir string) (names []string) {
	for _, p := range neededPlugins {
		if !executable(filepath.Join(dir, p)) {
			names = append(names, p)
		}
	}
	return names
}

func executable(file string) bool {
	fi, err := os.Stat(file)
	return err == nil && !fi.IsDir() && fi.Mode()&0o111 != 0
}

// cniConf returns the directory of network configs: the host's if it contains
// one, else podstead's own, which is written once and kept, so that the addresses
// of running pods stay valid across a restart; see updateRanges for an exception. If the disk takes no file, it is
// below State.
func (c Config) cniConf(bin string) (string, error) {
	if has, err := hasNetwork(c.CNIConfDir); err != nil {
		return "", err
	} else if has {
		return c.CNIConfDir, nil
	}
	own := c.ownCNIConf()
	if has, err := hasNetwork(own); err != nil {
		return "", err
	} else if has {
		c.updateNetwork(own, bin)
		return own, nil
	}
	text, err := c.newNetwork(bin)
	if err != nil {
		return "", err
	}
	err = c.writeNetwork(own, text)
	c.Disk.Unwritten.Report(own, err)
	if err != nil {
		// The next start finds the bridge, and writes the same network again.
		own = filepath.Join(c.State, "cni", "net.d")
		err = c.writeNetwork(own, text)
	}
	return own, err
}

// NetworkConfig returns a CNI configuration of one bridge, with a subnet that overlaps no
// address of this host. It limits the bandwidth of pods if one of the directories has the plugin.
func NetworkConfig(binDirs ...string) ([]byte, error) { return Config{}.newNetwork(binDirs...) }

// newNetwork returns a network of PodCIDRs, or of a subnet that overlaps no address of this host.
func (c Config) newNetwork(binDirs ...string) ([]byte, error) {
	ranges, err := c.newRanges()
	if err != nil {
		return nil, err
	}
	text := networkText(ranges)
	for _, dir := range binDirs {
		if executable(filepath.Join(dir, "bandwidth")) {
			return withBandwidth(text, true), nil
		}
	}
	return text, nil
}

// networkFile is the name of podstead's own network config.
const networkFile = "10-podstead.conflist"

// lastPlugin ends the plugins of a network that podstead has written, bandwidthPlugin is the one
// that follows it if it is installed.
const (
	lastPlugin      = `{"type": "portmap", "capabilities": {"portMappings": true}}`
	bandwidthPlugin = `,
    {"type": "bandwidth", "capabilities": {"bandwidth": true}}`
)

// withBandwidth returns podstead's network with or without the plugin bandwidth. A text that
// was changed otherwise is returned as it is.
func withBandwidth(text []byte, with bool) []byte {
	const end = "\n  ]"
	before, after := lastPlugin+end, lastPlugin+bandwidthPlugin+end
	if !with {
		before, after = after, before
	}
	return bytes.Replace(text, []byte(before), []byte(after), 1)
}

// updateNetwork adds the plugin bandwidth to podstead's network if it has been installed since
// that was written, and removes it if it has gone: with a missing plugin no pod could start or
// end. The addresses of pods do not depend on it. A containerd that runs reads the file again.
func (c Config) updateNetwork(dir, bin string) {
	file := filepath.Join(dir, networkFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return // it is another network, of the administrator
	}
	if now := withBandwidth(text, executable(filepath.Join(bin, "bandwidth"))); !bytes.Equal(now, text) {
		c.Disk.Unwritten.Report(file, c.replaceFile(file, now, 0o644))
	}
}

func (c Config) writeNetwork(dir string, text []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("failed to create the directory of the pod network: %w", err)
	}
	return c.replaceFile(filepath.Join(dir, networkFile), text, 0o644)
}

// hasNetwork reports whether the directory contains a config that a runtime
// loads.
func hasNetwork(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("failed to read the CNI config directory: %w", err)
	}
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".conf", ".conflist", ".json":
			return true, nil
		}
	}
	return false, nil
}

// bridge is the pods' bridge. The name is podstead's own, so that it never
// conflicts with another runtime's.
const bridge = "podstead0"

// chooseSubnet returns that of an existing bridge, left by an earlier root
// directory, since a bridge refuses a second address; else a free one.
func chooseSubnet() (string, error) {
	if iface, err := net.InterfaceByName(bridge); err == nil {
		addrs, err := iface.Addrs()
		if err != nil {
			return "", fmt.Errorf("failed to list the addresses of %s: %w", bridge, err)
		}
		if subnet, ok := subnetOf(addrs); ok {
			return subnet, nil
		}
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("failed to list the host's addresses: %w", err)
	}
	return freeSubnet(addrs)
}

// subnetOf returns the network of the first IPv4 address.
func subnetOf(addrs []net.Addr) (string, bool) {
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			return (&net.IPNet{IP: n.IP.Mask(n.Mask), Mask: n.Mask}).String(), true
		}
	}
	return "", false
}

// networkConfig is one bridge with masquerading and host ports.
const networkConfig = `{
  "cniVersion": "0.4.0",
  "name": "podstead",
  "plugins": [
    {
      "type": "bridge",
      "bridge": %q,
      "isGateway": true,
      "ipMasq": true,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "ranges": [%s],
        "routes": [%s]
      }
    },
    ` + lastPlugin + `
  ]
}
`

// freeSubnet returns the first of a few private networks that overlaps no address
// of the host.
func freeSubnet(addrs []net.Addr) (string, error) {
	for third := 88; third <= 119; third++ {
		_, candidate, _ := net.ParseCIDR(fmt.Sprintf("10.%d.0.0/16", third))
		if !overlaps(candidate, addrs) {
			return candidate.String(), nil
		}
	}
	return "", fmt.Errorf("no free network for pods: each of 10.88.0.0/16 to 10.119.0.0/16 overlaps an address of this " +
		"host; put your own CNI config into the CNI config directory")
}

func overlaps(candidate *net.IPNet, addrs []net.Addr) bool {
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if ok && (candidate.Contains(n.IP) || n.Contains(candidate.IP)) {
			return true
		}
	}
	return false
}
