package dns

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// fakeNameserver listens unless err is set.
type fakeNameserver struct{ err error }

func (f fakeNameserver) Domain() string { return "cluster.local" }

func (f fakeNameserver) Addresses(hostNetwork bool) ([]string, error) {
	if hostNetwork {
		return []string{"127.88.0.1"}, f.err
	}
	return []string{"10.88.0.1"}, f.err
}

func TestResolverWithNameserver(t *testing.T) {
	host := file(t, "nameserver 10.0.0.1\nsearch host.test\noptions edns0\n")
	ofHost := cri.DNS{Servers: []string{"10.0.0.1"}, Searches: []string{"host.test"}, Options: []string{"edns0"}}
	ofNode := func(server string) cri.DNS {
		return cri.DNS{
			Servers:  []string{server},
			Searches: []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "host.test"},
			Options:  []string{"ndots:5"},
		}
	}
	works := Settings{ResolvConf: host, Nameserver: fakeNameserver{}}
	fails := Settings{ResolvConf: host, Nameserver: fakeNameserver{errors.New("address already in use")}}
	cluster := Settings{ResolvConf: host, ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "c.local",
		Nameserver: fakeNameserver{}}
	ofCluster := cri.DNS{Servers: []string{"10.96.0.10"},
		Searches: []string{"shop.svc.c.local", "svc.c.local", "c.local", "host.test"}, Options: []string{"ndots:5"}}
	none := &v1.PodDNSConfig{Nameservers: []string{"10.0.0.9"}}
	for name, c := range map[string]struct {
		settings Settings
		api      bool
		spec     v1.PodSpec
		want     cri.DNS
		warning  string
	}{
		"ClusterFirst": {settings: works, spec: v1.PodSpec{DNSPolicy: v1.DNSClusterFirst},
			want: ofNode("10.88.0.1")},
		"ClusterFirst on the host": {settings: works,
			spec: v1.PodSpec{DNSPolicy: v1.DNSClusterFirst, HostNetwork: true}, want: ofHost},
		"ClusterFirstWithHostNet": {settings: works,
			spec: v1.PodSpec{DNSPolicy: v1.DNSClusterFirstWithHostNet, HostNetwork: true}, want: ofNode("127.88.0.1")},
		"Default": {settings: works, spec: v1.PodSpec{DNSPolicy: v1.DNSDefault}, want: ofHost},
		"None": {settings: works, spec: v1.PodSpec{DNSPolicy: v1.DNSNone, DNSConfig: none},
			want: cri.DNS{Servers: []string{"10.0.0.9"}}},
		"an API pod": {settings: works, api: true, spec: v1.PodSpec{DNSPolicy: v1.DNSClusterFirst},
			want: ofHost},
		"a configured DNS takes precedence": {settings: cluster, spec: v1.PodSpec{DNSPolicy: v1.DNSClusterFirst},
			want: ofCluster},
		"it does not listen": {settings: fails, spec: v1.PodSpec{DNSPolicy: v1.DNSClusterFirst}, want: ofHost,
			warning: "address already in use"},
		"nor is it wanted": {settings: fails, spec: v1.PodSpec{DNSPolicy: v1.DNSDefault}, want: ofHost},
	} {
		p := pod(func(s *v1.PodSpec) { *s = c.spec })
		if c.api {
			p.Annotations = map[string]string{podinfo.AnnotationSource: string(podinfo.SourceAPI)}
		}
		got, omitted, err := c.settings.Resolver(p)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
		if text := strings.Join(omitted, "; "); (text == "") != (c.warning == "") || !strings.Contains(text, c.warning) {
			t.Errorf("%s: warnings %q, want %q", name, text, c.warning)
		}
	}
}

// A pod with the name server of the node does not wait until the node has name servers.
func TestMissingWithNameserver(t *testing.T) {
	host := file(t, "# not yet\n")
	if (Settings{ResolvConf: host, Nameserver: fakeNameserver{}}).Missing(pod(nil)) {
		t.Error("the pod waits although its name server listens")
	}
	if !(Settings{ResolvConf: host, Nameserver: fakeNameserver{errors.New("no")}}).Missing(pod(nil)) {
		t.Error("the pod does not wait for the host's name servers, which it gets")
	}
}
