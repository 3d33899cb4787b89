package dns

import (
	"fmt"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Limits of names in bytes: of one label, and the kernel's for a host name.
const (
	maxLabel    = 63
	maxHostname = 64
)

// Hostname returns the pod's host name, empty for a pod on the host's network, which
// keeps that of the host. It is an error if the name that setHostnameAsFQDN requires
// is longer than the kernel allows.
func (s Settings) Hostname(pod *v1.Pod) (string, error) {
	if pod.Spec.HostNetwork {
		return "", nil
	}
	name, domain := s.names(pod)
	if asFQDN := pod.Spec.SetHostnameAsFQDN; asFQDN == nil || !*asFQDN || domain == "" {
		return name, nil
	}
	full := name + "." + domain
	if len(full) > maxHostname {
		// The kubelet's words, which people search for.
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d "+
			"characters is the max, %d characters requested); shorten hostname, subdomain or the cluster domain, or "+
			"remove setHostnameAsFQDN", full, maxHostname, len(full))
	}
	return full, nil
}

// names returns the pod's host name and its domain, empty if it has none. Without a
// cluster domain the kubelet's name ends in a dot; this one does not.
func (s Settings) names(pod *v1.Pod) (name, domain string) {
	if own := pod.Spec.HostnameOverride; own != nil {
		return truncateName(*own, maxHostname), ""
	}
	name = pod.Name
	if pod.Spec.Hostname != "" {
		name = pod.Spec.Hostname
	}
	if sub := pod.Spec.Subdomain; sub != "" {
		domain = strings.TrimSuffix(sub+"."+pod.Namespace+".svc."+s.ClusterDomain, ".")
	}
	return truncateName(name, maxLabel), domain
}

// truncateName shortens a name to the limit, so that it ends in a letter or digit.
func truncateName(name string, limit int) string {
	if len(name) > limit {
		name = strings.TrimRight(name[:limit], "-.")
	}
	return name
}

// hostsHead begins the hosts file of a pod with its own network. It is the kubelet's
// text, and programs look for its first line.
const hostsHead = `# Kubernetes-managed hosts file.
127.0.0.1	localhost
::1	localhost ip6-localhost ip6-loopback
fe00::0	ip6-localnet
fe00::0	ip6-mcastprefix
fe00::1	ip6-allnodes
fe00::2	ip6-allrouters
`

// HostsFile returns the content of the pod's /etc/hosts: its names at its addresses, or
// the content of the host's file for a pod on the host's network, then hostAliases.
func (s Settings) HostsFile(pod *v1.Pod, podIPs []string) ([]byte, error) {
	var text strings.Builder
	if pod.Spec.HostNetwork {
		path := s.Hosts
		if path == "" {
			path = defaultHosts
		}
		own, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			return nil, fmt.Errorf("failed to read the host's hosts file: %w", err)
		}
		text.WriteString("# Kubernetes-managed hosts file (host network).\n")
		text.Write(own)
		if len(own) > 0 && own[len(own)-1] != '\n' {
			text.WriteByte('\n')
		}
	} else {
		text.WriteString(hostsHead)
		name, domain := s.names(pod)
		for _, ip := range podIPs {
			if domain != "" {
				fmt.Fprintf(&text, "%s\t%s.%s\t%s\n", ip, name, domain, name)
			} else {
				fmt.Fprintf(&text, "%s\t%s\n", ip, name)
			}
		}
	}
	if len(pod.Spec.HostAliases) > 0 {
		text.WriteString("\n# Entries added by HostAliases.\n")
	}
	for _, alias := range pod.Spec.HostAliases {
		fmt.Fprintf(&text, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
	}
	return []byte(text.String()), nil
}
