package dns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cri"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func pod(change func(*v1.PodSpec)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-node", Namespace: "shop"}}
	p.Spec.DNSPolicy = v1.DNSClusterFirst
	if change != nil {
		change(&p.Spec)
	}
	return p
}

func TestParseResolvConf(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want cri.DNS
	}{
		"empty": {},
		"all": {"# made by hand\n; or not\n  nameserver\t10.0.0.1 # first\nnameserver fd00::1\nnameserver 10.0.0.1\nsearch " +
			"a.test. b.test .\noptions ndots:2 edns0\noptions ndots:3 rotate\nsortlist 1.2.3.4\nnameserver\n",
			cri.DNS{Servers: []string{"10.0.0.1", "fd00::1"}, Searches: []string{"a.test", "b.test"},
				Options: []string{"ndots:3", "edns0", "rotate"}}},
		"the last list wins":      {"search a.test\nsearch b.test c.test\n", cri.DNS{Searches: []string{"b.test", "c.test"}}},
		"domain is a search list": {"search a.test\ndomain d.test\n", cri.DNS{Searches: []string{"d.test"}}},
		"no newline, CR LF": {"nameserver 10.0.0.1\r\nsearch a.test",
			cri.DNS{Servers: []string{"10.0.0.1"}, Searches: []string{"a.test"}}},
		"root only": {"search .\n", cri.DNS{}},
	} {
		if diff := cmp.Diff(c.want, parseResolvConf(c.text)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestResolverByPolicy(t *testing.T) {
	host := file(t, "nameserver 10.0.0.1\nsearch host.test cluster.local\noptions edns0\n")
	ofHost := cri.DNS{Servers: []string{"10.0.0.1"}, Searches: []string{"host.test", "cluster.local"},
		Options: []string{"edns0"}}
	ofCluster := cri.DNS{
		Servers:  []string{"10.96.0.10"},
		Searches: []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "host.test"},
		Options:  []string{"ndots:5"},
	}
	alone := Settings{ResolvConf: host}
	cluster := Settings{ResolvConf: host, ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local"}
	five := "5"
	own := &v1.PodDNSConfig{
		Nameservers: []string{"10.0.0.9", "10.0.0.1"}, Searches: []string{"own.test", "host.test"},
		Options: []v1.PodDNSConfigOption{{Name: "timeout", Value: &five}, {Name: "edns0"}, {Name: "rotate"}},
	}
	for name, c := range map[string]struct {
		settings Settings
		spec     v1.PodSpec
		want     cri.DNS
	}{
		"ClusterFirst without a cluster": {alone, v1.PodSpec{DNSPolicy: v1.DNSClusterFirst}, ofHost},
		"ClusterFirst":                   {cluster, v1.PodSpec{DNSPolicy: v1.DNSClusterFirst}, ofCluster},
		"ClusterFirst on the host":       {cluster, v1.PodSpec{DNSPolicy: v1.DNSClusterFirst, HostNetwork: true}, ofHost},
		"ClusterFirstWithHostNet": {cluster, v1.PodSpec{DNSPolicy: v1.DNSClusterFirstWithHostNet, HostNetwork: true},
			ofCluster},
		"ClusterFirstWithHostNet, alone": {alone, v1.PodSpec{DNSPolicy: v1.DNSClusterFirstWithHostNet, HostNetwork: true},
			ofHost},
		"Default": {cluster, v1.PodSpec{DNSPolicy: v1.DNSDefault}, ofHost},
		"no cluster domain": {Settings{ResolvConf: host, ClusterDNS: []string{"10.96.0.10"}},
			v1.PodSpec{DNSPolicy: v1.DNSClusterFirst},
			cri.DNS{Servers: []string{"10.96.0.10"}, Searches: []string{"host.test", "cluster.local"},
				Options: []string{"ndots:5"}}},
		"None": {cluster, v1.PodSpec{DNSPolicy: v1.DNSNone, DNSConfig: own},
			cri.DNS{Servers: []string{"10.0.0.9", "10.0.0.1"}, Searches: []string{"own.test", "host.test"},
				Options: []string{"timeout:5", "edns0", "rotate"}}},
		"Default and more": {alone, v1.PodSpec{DNSPolicy: v1.DNSDefault, DNSConfig: own},
			cri.DNS{Servers: []string{"10.0.0.1", "10.0.0.9"}, Searches: []string{"host.test", "cluster.local", "own.test"},
				Options: []string{"edns0", "timeout:5", "rotate"}}},
		"no file configured": {Settings{}, v1.PodSpec{DNSPolicy: v1.DNSDefault, HostNetwork: true},
			cri.DNS{Servers: []string{"127.0.0.1"}, Searches: []string{"."}}},
		"missing file": {Settings{ResolvConf: host + ".no"}, v1.PodSpec{DNSPolicy: v1.DNSDefault},
			cri.DNS{Searches: []string{"."}}},
	} {
		got, omitted, err := c.settings.Resolver(pod(func(s *v1.PodSpec) { *s = c.spec }))
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil || len(omitted) > 0 {
			t.Errorf("%s: %v %q (-want +got)\n%s", name, err, omitted, diff)
		}
	}
}

// A change of the host's file applies to the next pod.
func TestResolverRereadsResolvConf(t *testing.T) {
	host := file(t, "nameserver 10.0.0.1\n")
	s := Settings{ResolvConf: host}
	for _, server := range []string{"10.0.0.1", "10.0.0.2"} {
		if err := os.WriteFile(host, []byte("nameserver "+server+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _, err := s.Resolver(pod(nil)); err != nil || got.Servers[0] != server {
			t.Errorf("%v (%v), want %s", got, err, server)
		}
	}
	if _, _, err := (Settings{ResolvConf: t.TempDir()}).Resolver(pod(nil)); err == nil {
		t.Error("a directory as resolv.conf is accepted")
	}
}

func TestResolverPassesBehindTheStub(t *testing.T) {
	s := Settings{
		ResolvConf: file(t, "nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch lan\n"),
		Upstream:   file(t, "nameserver 192.168.0.1\nsearch lan\n"),
	}
	if got, omitted, err := s.Resolver(pod(nil)); err != nil || len(omitted) > 0 ||
		!cmp.Equal(got, cri.DNS{Servers: []string{"192.168.0.1"}, Searches: []string{"lan"}}) {
		t.Errorf("%v %q %v, want the stub's upstream servers", got, omitted, err)
	}
	onHost := pod(func(s *v1.PodSpec) { s.HostNetwork = true })
	if got, omitted, err := s.Resolver(onHost); err != nil || len(omitted) > 0 || got.Servers[0] != "127.0.0.53" {
		t.Errorf("%v %q %v, want the stub, which answers on the host's network", got, omitted, err)
	}
	s.Upstream += ".no"
	if got, omitted, err := s.Resolver(pod(nil)); err != nil || got.Servers[0] != "127.0.0.53" || len(omitted) != 1 ||
		!strings.Contains(omitted[0], "--resolv-conf") {
		t.Errorf("%v %q %v, want the stub and a warning", got, omitted, err)
	}
	s.ResolvConf = file(t, "nameserver 127.0.0.53\nnameserver 10.0.0.1\n")
	if got, omitted, err := s.Resolver(pod(nil)); err != nil || len(omitted) > 0 || len(got.Servers) != 2 {
		t.Errorf("%v %q %v, want both servers", got, omitted, err)
	}
}

func TestResolverKeepsTheLimits(t *testing.T) {
	many := func(n, length int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("%0*d", length, i))
		}
		return list
	}
	for name, c := range map[string]struct {
		servers, searches []string
		keptServers, kept int
		words             string
	}{
		"at the limits":        {many(3, 1), many(32, 63), 3, 32, ""},
		"servers":              {many(4, 1), nil, 3, 0, "3 nameservers: 3 omitted, 0 1 2 kept"},
		"domains":              {many(1, 1), many(33, 3), 1, 32, "032 omitted"},
		"characters":           {many(1, 1), many(10, 220), 1, 9, "omitted"},
		"a long domain":        {many(1, 1), append(many(1, 256), "a"), 1, 1, "omitted, a kept"},
		"exactly at the limit": {many(1, 1), append(many(8, 249), strings.Repeat("a", 48)), 1, 9, ""},
		"one too many":         {many(1, 1), append(many(8, 249), strings.Repeat("a", 49)), 1, 8, "omitted"},
	} {
		p := pod(func(s *v1.PodSpec) {
			s.DNSPolicy, s.DNSConfig = v1.DNSNone, &v1.PodDNSConfig{Nameservers: c.servers, Searches: c.searches}
		})
		got, omitted, err := Settings{}.Resolver(p)
		if err != nil || len(got.Servers) != c.keptServers || len(got.Searches) != c.kept {
			t.Errorf("%s: %d servers and %d domains (%v)", name, len(got.Servers), len(got.Searches), err)
		}
		if all := strings.Join(omitted, "; "); (c.words == "") != (all == "") || !strings.Contains(all, c.words) {
			t.Errorf("%s: %q, want %q", name, all, c.words)
		}
	}
}

func TestMissing(t *testing.T) {
	stub := "nameserver 127.0.0.53\n"
	for name, c := range map[string]struct {
		host, upstream string
		cluster        []string
		none           bool
		change         func(*v1.PodSpec)
		want           bool
	}{
		"a server":                        {host: "nameserver 10.0.0.1\n"},
		"an empty file":                   {host: "# not yet\n", want: true},
		"the stub without servers":        {host: stub, want: true},
		"the stub with servers":           {host: stub, upstream: "nameserver 10.0.0.1\n"},
		"the stub, on the host's network": {host: stub, change: func(s *v1.PodSpec) { s.HostNetwork = true }},
		"a server of the host's own":      {host: "nameserver 127.0.0.1\n"},
		"no file is configured":           {none: true},
		"the cluster's":                   {cluster: []string{"10.96.0.10"}},
		"the cluster's, on host's network": {cluster: []string{"10.96.0.10"},
			change: func(s *v1.PodSpec) { s.HostNetwork = true }, want: true},
		"the cluster's, for a default pod": {cluster: []string{"10.96.0.10"},
			change: func(s *v1.PodSpec) { s.DNSPolicy = v1.DNSDefault }, want: true},
		"none wanted": {change: func(s *v1.PodSpec) { s.DNSPolicy = v1.DNSNone }},
		"the pod's own": {
			change: func(s *v1.PodSpec) { s.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"10.0.0.3"}} }},
		"the pod's options without servers": {
			change: func(s *v1.PodSpec) { s.DNSConfig = &v1.PodDNSConfig{Searches: []string{"a.test"}} }, want: true},
	} {
		s := Settings{ResolvConf: file(t, c.host), Upstream: file(t, c.upstream), ClusterDNS: c.cluster}
		if c.none {
			s.ResolvConf = ""
		}
		if got := s.Missing(pod(c.change)); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
