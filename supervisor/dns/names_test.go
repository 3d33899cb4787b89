package dns

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestHostname(t *testing.T) {
	yes, override := true, "over.ride"
	long := strings.Repeat("a", 40)
	for name, c := range map[string]struct {
		domain string
		change func(*v1.Pod)
		want   string // empty is an error
	}{
		"the pod's name":   {"", func(*v1.Pod) {}, "web-node"},
		"63 characters":    {"", func(p *v1.Pod) { p.Name = strings.Repeat("a", 63) }, strings.Repeat("a", 63)},
		"64 are truncated": {"", func(p *v1.Pod) { p.Name = strings.Repeat("a", 64) }, strings.Repeat("a", 63)},
		"ends in an alphanumeric": {"", func(p *v1.Pod) { p.Name = strings.Repeat("a", 61) + "-.b" },
			strings.Repeat("a", 61)},
		"hostname":         {"", func(p *v1.Pod) { p.Spec.Hostname = "own" }, "own"},
		"with a subdomain": {"c.local", func(p *v1.Pod) { p.Spec.Subdomain = "sub" }, "web-node"},
		"FQDN": {"c.local", func(p *v1.Pod) { p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "sub", &yes },
			"web-node.sub.shop.svc.c.local"},
		"no cluster": {"", func(p *v1.Pod) { p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "sub", &yes },
			"web-node.sub.shop.svc"},
		"no subdomain": {"c.local", func(p *v1.Pod) { p.Spec.SetHostnameAsFQDN = &yes }, "web-node"},
		"FQDN of 64": {"", func(p *v1.Pod) {
			p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = long, strings.Repeat("b", 14), &yes
		}, long + "." + strings.Repeat("b", 14) + ".shop.svc"},
		"FQDN of 65": {"", func(p *v1.Pod) {
			p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = long, strings.Repeat("b", 15), &yes
		}, ""},
		"override": {"c.local", func(p *v1.Pod) {
			p.Spec.Hostname, p.Spec.Subdomain, p.Spec.HostnameOverride = "own", "sub",
				&override
		}, "over.ride"},
	} {
		p := pod(nil)
		c.change(p)
		got, err := Settings{ClusterDomain: c.domain}.Hostname(p)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
		}
		if c.want == "" && !strings.Contains(err.Error(), "shorten") {
			t.Errorf("%s: %v does not state what to do", name, err)
		}
	}
	if got, err := (Settings{}).Hostname(
		pod(func(s *v1.PodSpec) { s.HostNetwork, s.Hostname = true, "own" })); got != "" || err != nil {
		t.Errorf("on the host's network: %q (%v), want the host's", got, err)
	}
}

func TestHostsFile(t *testing.T) {
	aliases := []v1.HostAlias{{IP: "10.1.1.1", Hostnames: []string{"db", "db.test"}},
		{IP: "::2", Hostnames: []string{"six"}}}
	const tail = "\n# Entries added by HostAliases.\n10.1.1.1\tdb\tdb.test\n::2\tsix\n"
	for name, c := range map[string]struct {
		settings Settings
		spec     v1.PodSpec
		want     string
	}{
		"plain": {Settings{}, v1.PodSpec{}, hostsHead + "10.9.0.2\tweb-node\nfd00::2\tweb-node\n"},
		"subdomain": {Settings{ClusterDomain: "c.local"}, v1.PodSpec{Hostname: "own", Subdomain: "sub"},
			hostsHead + "10.9.0.2\town.sub.shop.svc.c.local\town\nfd00::2\town.sub.shop.svc.c.local\town\n"},
		"aliases": {Settings{}, v1.PodSpec{HostAliases: aliases},
			hostsHead + "10.9.0.2\tweb-node\nfd00::2\tweb-node\n" + tail},
		"host": {Settings{Hosts: file(t, "127.0.0.1 localhost\n10.0.0.7 edge")},
			v1.PodSpec{HostNetwork: true, HostAliases: aliases},
			"# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n10.0.0.7 edge\n" + tail},
		"host without one": {Settings{Hosts: "/nonexistent/hosts"}, v1.PodSpec{HostNetwork: true},
			"# Kubernetes-managed hosts file (host network).\n"},
	} {
		got, err := c.settings.HostsFile(pod(func(s *v1.PodSpec) { *s = c.spec }), []string{"10.9.0.2", "fd00::2"})
		if string(got) != c.want || err != nil {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, c.want)
		}
	}
}
