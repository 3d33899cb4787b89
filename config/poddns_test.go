package config

import (
	"strings"
	"testing"
)

func TestPodDNS(t *testing.T) {
	o, _, err := complete(t, "--config=")
	if err != nil || o.PodDNS.Mode != PodDNSAuto || len(o.PodDNS.Addresses) > 0 {
		t.Errorf("the default is %+v (%v)", o.PodDNS, err)
	}
	o, _, err = complete(t, "--config=", "--pod-dns=always", "--pod-dns-address=10.88.0.1/16",
		"--pod-dns-address=fd00:1::1/64")
	if err != nil || o.PodDNS.Mode != PodDNSAlways || len(o.PodDNS.Addresses) != 2 ||
		o.PodDNS.Addresses[0].String() != "10.88.0.1/16" {
		t.Errorf("%+v (%v)", o.PodDNS, err)
	}
	_, notices, err := complete(t, "--config=", "--pod-dns=always", "--cluster-dns=10.96.0.10")
	if err != nil || !strings.Contains(strings.Join(notices, "\n"), "no effect with --cluster-dns") {
		t.Errorf("with a cluster's DNS: %q (%v)", notices, err)
	}
	for arg, want := range map[string]string{
		"--pod-dns=on":                         "auto, always or never",
		"--pod-dns-address=10.88.0.1":          "prefix length",
		"--pod-dns-address=0.0.0.0/16":         "bridge",
		"--pod-dns-address=127.0.0.1/8":        "bridge",
		"--pod-dns-address=10.0.0.1/0":         "too short",
		"--pod-dns-address=2001:db8::1/16":     "too short",
		"--pod-dns-address=::ffff:10.0.0.1/96": "bridge",
	} {
		if _, _, err := complete(t, "--config=", arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
}
