package private

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestGateways(t *testing.T) {
	bridge := func(rest string) string {
		return `{"cniVersion": "0.4.0", "name": "n", "plugins": [{"type": "bridge", "isGateway": true, ` + rest +
			`}, {"type": "portmap"}]}`
	}
	for name, c := range map[string]struct {
		text, want, err string
	}{
		"podstead's own": {text: string(networkText(prefixes(t, "10.88.0.0/16"))), want: "10.88.0.1/16"},
		"two families": {text: bridge(
			`"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd42::/64", "gateway": "fd42::9"}]]}`), want: "10.1.0.1/24 fd42::9/64"},
		"the old form":        {text: `{"name": "n", "type": "bridge", "isDefaultGateway": true, "ipam": {"type": "host-local", "subnet": "10.1.0.0/24"}}`, want: "10.1.0.1/24"},
		"not a gateway":       {text: `{"plugins": [{"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.1.0.0/24"}}]}`, err: "isGateway"},
		"another plugin":      {text: `{"plugins": [{"type": "calico"}]}`, err: "does not configure a bridge"},
		"addresses from DHCP": {text: bridge(`"ipam": {"type": "dhcp"}`), err: "host-local"},
		"no JSON":             {text: "{", err: "not a valid CNI config"},
		"no network": {text: bridge(`"ipam": {"type": "host-local", "subnet": "10.1.0.300/24"}`),
			err: "10.1.0.300/24"},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"10-a.conflist": c.text,
			"20-b.conflist": string(networkText(prefixes(t, "10.99.0.0/16"))), "00-readme.txt": "no config"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := Gateways(dir)
		var want []netip.Prefix
		for _, w := range strings.Fields(c.want) {
			want = append(want, netip.MustParsePrefix(w))
		}
		if !slices.Equal(got, want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v (%v), want %v %s", name, got, err, want, c.err)
		}
	}
	if _, err := Gateways(t.TempDir()); err == nil {
		t.Error("an empty directory has a network")
	}
}

func TestNetworkOfThePrivateContainerd(t *testing.T) {
	cfg := Config{Root: t.TempDir(), State: t.TempDir(), CNIConfDir: "/etc/cni/net.d"}
	for _, c := range []struct {
		dir string
		own bool
	}{{"/etc/cni/net.d", false}, {cfg.ownCNIConf(), true}} {
		if err := cfg.writeConfig(cfg.render("/bin", c.dir, false, false)); err != nil {
			t.Fatal(err)
		}
		dir, own, err := cfg.Network()
		if dir != c.dir || own != c.own || err != nil {
			t.Errorf("%s %v (%v), want %+v", dir, own, err, c)
		}
	}
}
