package preflight

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cniPlugin is one of a network config, as far as it matters here.
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

// usual is the chain of the network that podstead makes for a containerd of its
// own.
var usual = []cniPlugin{{Type: "bridge", IsGateway: true, IPMasq: true}, {Type: "portmap"}, {Type: "host-local"}, {Type: "loopback"}}

// cniConfig is the first network config, in which a runtime finds its plugins;
// file is empty if there is none.
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

// chain is the network of pods: that of the config, or podstead's own.
func (h *Host) chain(s *Settings) []cniPlugin {
	file, plugins, err := h.cniConfig(s.CNIConfDir)
	if err != nil {
		return nil
	}
	if file == "" && s.Runtime.Private {
		return usual
	}
	return plugins
}

const installPlugins = "apt-get install containernetworking-plugins  (or unpack the release of containernetworking/plugins into /opt/cni/bin)"

func network(h *Host, s *Settings) []Finding {
	file, plugins, err := h.cniConfig(s.CNIConfDir)
	if err != nil {
		return fail("cni", "mv "+file+" /root/", "%s is no network config: %v", file, err)
	}
	if s.Runtime.NoNetwork != "" && file == "" {
		return fail("cni", "put a network config into "+s.CNIConfDir+", such as 10-pods.conflist with the plugins bridge and portmap",
			"the runtime has no network for pods (only those with hostNetwork run): %s", s.Runtime.NoNetwork)
	}
	if file == "" && !s.Runtime.Private {
		if s.Runtime.Err != nil {
			return nil // nobody tells where it looks
		}
		return ok("cni", "the runtime has a network for pods")
	}
	if file == "" {
		plugins = usual
	}
	var missing []string
	for _, p := range plugins {
		for _, name := range []string{p.Type, p.IPAM.Type} {
			found := slices.ContainsFunc(s.CNIBinDirs, func(dir string) bool { return h.executable(filepath.Join(dir, name)) })
			if name != "" && !found && !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
	}
	switch {
	case len(missing) > 0:
		return fail("cni", installPlugins, "the network of pods needs the CNI plugins %s, which are in none of %s", strings.Join(missing, ", "), strings.Join(s.CNIBinDirs, ", "))
	case s.Runtime.NoNetwork != "":
		return fail("cni", "journalctl -u containerd | grep -i cni", "the runtime has no network for pods, although there is %s: %s", file, s.Runtime.NoNetwork)
	case file == "":
		return ok("cni", "podstead would make a network for pods; its plugins are installed")
	}
	return ok("cni", "%s, with all its plugins", file)
}

// iptables is run by the plugins for masquerading and for ports of the host.
func iptables(h *Host, s *Settings) []Finding {
	uses := slices.ContainsFunc(h.chain(s), func(p cniPlugin) bool {
		masquerades := p.IPMasq && p.IPMasqBackend != "nftables"
		return masquerades || (p.Type == "portmap" || p.Type == "firewall") && p.Backend != "nftables"
	})
	switch {
	case !uses:
		return nil
	case h.command("iptables") == "":
		return fail("iptables", "apt-get install iptables", "the network of pods needs iptables, which is not installed: no pod would start")
	}
	return ok("iptables", "it is installed")
}

// forwarding: the plugin bridge turns it on for IPv4 where it is a gateway.
func forwarding(h *Host, s *Settings) []Finding {
	chain := h.chain(s)
	gateway := func(p cniPlugin) bool { return p.Type == "bridge" && (p.IsGateway || p.IsDefault) }
	has, known := h.number("proc/sys/net/ipv4/ip_forward")
	if !known || len(chain) == 0 {
		return nil
	}
	switch {
	case has == 1:
		return ok("ip-forward", "it is on")
	case slices.ContainsFunc(chain, gateway):
		return ok("ip-forward", "it is off until the bridge of the first pod turns it on")
	}
	return fail("ip-forward", setting("net.ipv4.ip_forward", "1"), "net.ipv4.ip_forward is %d: pods reach nothing but this host", has)
}

// bridgeFilter matters where pods are on one bridge and the host's ports lead to
// them: an answer between two of them goes past iptables otherwise.
func bridgeFilter(h *Host, s *Settings) []Finding {
	has := func(kind string) bool {
		return slices.ContainsFunc(h.chain(s), func(p cniPlugin) bool { return p.Type == kind })
	}
	if !has("bridge") || !has("portmap") {
		return nil
	}
	const fix = "modprobe br_netfilter && echo br_netfilter >/etc/modules-load.d/br_netfilter.conf && echo net.bridge.bridge-nf-call-iptables=1 >>" + sysctlFile + " && sysctl --system"
	switch on, known := h.number("proc/sys/net/bridge/bridge-nf-call-iptables"); {
	case !known:
		return warn("br-netfilter", fix, "the module br_netfilter is not loaded: a pod does not reach the hostPort of another one through the node's address")
	case on == 0:
		return warn("br-netfilter", fix, "net.bridge.bridge-nf-call-iptables is 0: a pod does not reach the hostPort of another one through the node's address")
	}
	return ok("br-netfilter", "it is on")
}

// systemdServers is where systemd-resolved keeps what it asks itself.
const systemdServers = "/run/systemd/resolve/resolv.conf"

func resolver(h *Host, s *Settings) []Finding {
	if s.ResolvConf == "" {
		return nil
	}
	if !h.exists(s.ResolvConf) {
		return fail("dns", "podstead run --resolv-conf ''  (for none), or make the file", "there is no %s, from which pods have their name servers", s.ResolvConf)
	}
	servers, loopback := 0, 0
	for _, l := range strings.Split(h.line(s.ResolvConf), "\n") {
		if fields := strings.Fields(l); len(fields) > 1 && fields[0] == "nameserver" {
			servers++
			if strings.HasPrefix(fields[1], "127.") || fields[1] == "::1" {
				loopback++
			}
		}
	}
	switch {
	case servers == 0:
		return warn("dns", "echo nameserver ADDRESS >>"+s.ResolvConf, "%s names no server: pods resolve no names", s.ResolvConf)
	case loopback < servers:
		return ok("dns", "pods have their name servers from %s", s.ResolvConf)
	case h.exists(systemdServers):
		return warn("dns", "podstead run --resolv-conf "+systemdServers, "every name server in %s is a loopback address, at which a pod finds itself", s.ResolvConf)
	}
	return warn("dns", "podstead run --resolv-conf FILE, or --cluster-dns ADDRESS", "every name server in %s is a loopback address, at which a pod finds itself", s.ResolvConf)
}

// route: from it the node has its address, without which pods on the host's
// network wait.
func route(h *Host, s *Settings) []Finding {
	for _, l := range strings.Split(h.line("proc/net/route"), "\n") {
		if f := strings.Fields(l); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
			return ok("route", "there is a default route, over %s", f[0])
		}
	}
	for _, l := range strings.Split(h.line("proc/net/ipv6_route"), "\n") {
		if f := strings.Fields(l); len(f) > 9 && f[0] == strings.Repeat("0", 32) && f[1] == "00" && f[9] != "lo" {
			return ok("route", "there is a default route, over %s", f[9])
		}
	}
	if s.NodeIP {
		return nil
	}
	return warn("route", "podstead run --node-ip ADDRESS", "there is no default route, and no --node-ip: the node has no address, and pods with hostNetwork wait for one")
}
