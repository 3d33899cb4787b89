package preflight

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cniPlugin is a plugin of a CNI network configuration, with the fields that are checked.
type cniPlugin struct {
	Type          string `json:"type"`
	IsGateway     bool   `json:"isGateway"`
	IsDefault     bool   `json:"isDefaultGateway"`
	IPMasq        bool   `json:"ipMasq"`
	Backend       string `json:"backend"`
	IPMasqBackend string `json:"ipMasqBackend"`
	IPAM          struct {
		Type string `json:"type"`
	} `json:"ipam"`
}

// defaultChain are the plugins of the network that podstead creates for its private
// containerd.
var defaultChain = []cniPlugin{{Type: "bridge", IsGateway: true, IPMasq: true}, {Type: "portmap"}, {Type: "host-local"},
	{Type: "loopback"}}

// cniConfig returns the first network configuration, which the runtime uses; file is empty if
// there is none.
func (h *Host) cniConfig(dir string) (file string, plugins []cniPlugin, err error) {
	entries, _ := os.ReadDir(h.path(dir))
	for _, e := range entries {
		if !slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(e.Name())) {
			continue
		}
		file = filepath.Join(dir, e.Name())
		data, err := os.ReadFile(h.path(file))
		if err != nil {
			return file, nil, err
		}
		var config struct {
			cniPlugin
			Plugins []cniPlugin `json:"plugins"`
		}
		if err := json.Unmarshal(data, &config); err != nil {
			return file, nil, err
		}
		plugins = config.Plugins
		if len(plugins) == 0 {
			plugins = []cniPlugin{config.cniPlugin}
		}
		return file, plugins, nil
	}
	return "", nil, nil
}

// chain returns the plugins of the pod network: those of the configuration, or podstead's
// default.
func (h *Host) chain(s *Settings) []cniPlugin {
	file, plugins, err := h.cniConfig(s.CNI.ConfDir)
	if err != nil {
		return nil
	}
	if file == "" && s.Runtime.Private {
		return defaultChain
	}
	return plugins
}

const installPlugins = "apt-get install containernetworking-plugins  (or unpack the release of " +
	"containernetworking/plugins into /opt/cni/bin)"

// networkMissing reports a runtime without a pod network. Its fix writes one.
func (s *Settings) networkMissing() []Finding {
	const message = "the runtime has no pod network, only pods with hostNetwork can run: %s"
	if s.CNI.NewConfig == "" {
		return fail("cni", "create a network configuration in "+s.CNI.ConfDir+
			", such as 10-pods.conflist with the plugins bridge and portmap", message, s.Runtime.NoNetwork)
	}
	file := filepath.Join(s.CNI.ConfDir, "10-podstead.conflist")
	return repaired(fail("cni", fmt.Sprintf("mkdir -p %s && echo '%s' >%s", s.CNI.ConfDir, s.CNI.NewConfig, file), message,
		s.Runtime.NoNetwork))
}

func network(h *Host, s *Settings) []Finding {
	file, plugins, err := h.cniConfig(s.CNI.ConfDir)
	if err != nil {
		return fail("cni", "mv "+file+" /root/", "%s is not a valid CNI network configuration: %v", file, err)
	}
	if s.Runtime.NoNetwork != "" && file == "" {
		return s.networkMissing()
	}
	if file == "" && !s.Runtime.Private {
		if s.Runtime.Err != nil {
			return nil // the runtime's configuration directory is unknown
		}
		return ok("cni", "the runtime has a pod network")
	}
	if file == "" {
		plugins = defaultChain
	}
	var missing []string
	for _, p := range plugins {
		for _, name := range []string{p.Type, p.IPAM.Type} {
			found := slices.ContainsFunc(s.CNI.BinDirs, func(dir string) bool { return h.executable(filepath.Join(dir, name)) })
			if name != "" && !found && !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
	}
	switch {
	case len(missing) > 0:
		return h.installed("containernetworking-plugins",
			fail("cni", installPlugins, "the pod network requires the CNI plugins %s, which were not found in %s",
				strings.Join(missing, ", "), strings.Join(s.CNI.BinDirs, ", ")))
	case s.Runtime.NoNetwork != "":
		return fail("cni", s.Runtime.showLog(500)+" | grep -i cni", "the runtime has no pod network although %s exists: %s",
			file, s.Runtime.NoNetwork)
	case file == "":
		return ok("cni", "podstead will create a pod network; its plugins are installed")
	}
	return ok("cni", "%s and all its plugins are installed", file)
}

// iptables checks for the command, which plugins run for masquerading and host ports.
func iptables(h *Host, s *Settings) []Finding {
	uses := slices.ContainsFunc(h.chain(s), func(p cniPlugin) bool {
		masquerades := p.IPMasq && p.IPMasqBackend != "nftables"
		return masquerades || (p.Type == "portmap" || p.Type == "firewall") && p.Backend != "nftables"
	})
	switch {
	case !uses:
		return nil
	case h.command("iptables") == "":
		return h.installed("iptables",
			fail("iptables", "apt-get install iptables",
				"iptables is not installed, but the pod network requires it: pods fail to start"))
	}
	return ok("iptables", "iptables is installed")
}

// forwarding checks IPv4 forwarding. The bridge plugin enables it if it is a gateway.
func forwarding(h *Host, s *Settings) []Finding {
	chain := h.chain(s)
	gateway := func(p cniPlugin) bool { return p.Type == "bridge" && (p.IsGateway || p.IsDefault) }
	has, known := h.number("proc/sys/net/ipv4/ip_forward")
	if !known || len(chain) == 0 {
		return nil
	}
	switch {
	case has == 1:
		return ok("ip-forward", "IP forwarding is enabled")
	case slices.ContainsFunc(chain, gateway):
		return ok("ip-forward", "IP forwarding is disabled and will be enabled with the first pod")
	}
	return repaired(fail("ip-forward", setting("net.ipv4.ip_forward", "1"),
		"net.ipv4.ip_forward is %d: pods can only reach this host", has))
}

// bridgeFilter checks br_netfilter, which pods on one bridge with host ports require:
// otherwise replies between two pods bypass iptables.
func bridgeFilter(h *Host, s *Settings) []Finding {
	has := func(kind string) bool {
		return slices.ContainsFunc(h.chain(s), func(p cniPlugin) bool { return p.Type == kind })
	}
	if !has("bridge") || !has("portmap") {
		return nil
	}
	const fix = "modprobe br_netfilter && echo br_netfilter >/etc/modules-load.d/br_netfilter.conf && echo " +
		"net.bridge.bridge-nf-call-iptables=1 >>" + sysctlFile + " && sysctl --system"
	switch on, known := h.number("proc/sys/net/bridge/bridge-nf-call-iptables"); {
	case !known:
		return repaired(warn("br-netfilter", fix,
			"the module br_netfilter is not loaded: pods cannot reach each other's hostPort at the node's address"))
	case on == 0:
		return repaired(warn("br-netfilter", fix,
			"net.bridge.bridge-nf-call-iptables is 0: pods cannot reach each other's hostPort at the node's address"))
	}
	return ok("br-netfilter", "bridged traffic passes iptables")
}

// loopback checks that services of the host that listen only on loopback addresses cannot be
// reached from elsewhere. The CNI plugin portmap enables route_localnet for host ports.
func loopback(_ *Host, s *Settings) []Finding {
	switch {
	case len(s.RouteLocalnet) == 0:
		return nil
	case s.LocalnetRule:
		return ok("loopback", "packets from pods and neighbors to loopback addresses are dropped")
	}
	fix := "systemctl restart podstead  (it installs the rule when it starts)"
	if s.Running == 0 {
		fix = "systemctl start podstead  (it installs the rule when it starts)"
	}
	return warn("loopback", fix, "route_localnet is enabled (%s) and podstead's firewall rule is missing: pods and "+
		"neighbors of this host can reach services that listen only on 127.0.0.1", strings.Join(s.RouteLocalnet, ", "))
}

// systemdServers is the file with the upstream servers of systemd-resolved.
const systemdServers = "/run/systemd/resolve/resolv.conf"

func resolver(h *Host, s *Settings) []Finding {
	if s.ResolvConf == "" {
		return nil
	}
	if !h.exists(s.ResolvConf) {
		return fail("dns", "podstead run --resolv-conf ''  (for none), or create the file",
			"%s does not exist: pods get their name servers from it", s.ResolvConf)
	}
	servers, loopback := 0, 0
	for _, l := range strings.Split(h.text(s.ResolvConf), "\n") {
		if fields := strings.Fields(l); len(fields) > 1 && fields[0] == "nameserver" {
			servers++
			if strings.HasPrefix(fields[1], "127.") || fields[1] == "::1" {
				loopback++
			}
		}
	}
	switch {
	case servers == 0:
		return warn("dns", "echo nameserver ADDRESS >>"+s.ResolvConf, "%s contains no name server: pods cannot resolve names",
			s.ResolvConf)
	case loopback < servers:
		return ok("dns", "pods get their name servers from %s", s.ResolvConf)
	case h.exists(systemdServers):
		return warn("dns", "podstead run --resolv-conf "+systemdServers,
			"every name server in %s is a loopback address, which pods cannot reach", s.ResolvConf)
	}
	return warn("dns", "podstead run --resolv-conf FILE, or --cluster-dns ADDRESS",
		"every name server in %s is a loopback address, which pods cannot reach", s.ResolvConf)
}

// route checks for a default route: the node gets its address from it, and pods with
// hostNetwork wait for the node's address.
func route(h *Host, s *Settings) []Finding {
	for _, l := range strings.Split(h.text("proc/net/route"), "\n") {
		if f := strings.Fields(l); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
			return ok("route", "default route over %s", f[0])
		}
	}
	for _, l := range strings.Split(h.text("proc/net/ipv6_route"), "\n") {
		if f := strings.Fields(l); len(f) > 9 && f[0] == strings.Repeat("0", 32) && f[1] == "00" && f[9] != "lo" {
			return ok("route", "default route over %s", f[9])
		}
	}
	if s.NodeIP {
		return nil
	}
	return warn("route", "add --node-ip ADDRESS to the flags of podstead run",
		"there is no default route and no --node-ip: the node has no address, and pods with hostNetwork do not start")
}
