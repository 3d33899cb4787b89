package private

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func prefixes(t *testing.T, texts ...string) (list []netip.Prefix) {
	t.Helper()
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// A network that podstead has written gets the ranges that are set later, and keeps the plugin
// bandwidth. One that was changed otherwise, and one of the host, stay as they are.
func TestUpdateRanges(t *testing.T) {
	cfg, bin := testbed(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "bandwidth"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := cfg.cniConf(bin)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, networkFile)
	read := func() string {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := read()
	if err := cfg.updateRanges(dir); err != nil || read() != before {
		t.Errorf("without ranges: %v, %s", err, read())
	}
	has, own := rangesOf([]byte(before))
	if !own || len(has) != 1 {
		t.Fatalf("rangesOf = %v, %t of %s", has, own, before)
	}
	cfg.PodCIDRs = append(has, prefixes(t, "fd5e:1234:5678::/64")...)
	if err := cfg.updateRanges(dir); err != nil {
		t.Fatal(err)
	}
	after := read()
	if got, own := rangesOf([]byte(after)); !own || !slices.Equal(got, cfg.PodCIDRs) ||
		!strings.Contains(after, bandwidthPlugin) ||
		!strings.Contains(after, `"routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]`) {
		t.Errorf("ranges %v, %t: %s", got, own, after)
	}
	gateways, err := Gateways(dir)
	if err != nil || len(gateways) != 2 || gateways[1] != prefixes(t, "fd5e:1234:5678::1/64")[0] {
		t.Errorf("gateways %v (%v)", gateways, err)
	}
	if err := cfg.updateRanges(dir); err != nil || read() != after {
		t.Errorf("the second time: %v, %s", err, read())
	}

	edited := strings.Replace(after, `"hairpinMode": true`, `"hairpinMode": false`, 1)
	if err := os.WriteFile(file, []byte(edited), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg.PodCIDRs = has
	if err := cfg.updateRanges(dir); err == nil || !strings.Contains(err.Error(), file) || read() != edited {
		t.Errorf("an edited network: %v, %s", err, read())
	}
	if err := cfg.updateRanges(cfg.CNIConfDir); err == nil || !strings.Contains(err.Error(), cfg.CNIConfDir+" is used") {
		t.Errorf("the host's network: %v", err)
	}
}

func TestConflictsOfRanges(t *testing.T) {
	addr := func(s string) net.Addr {
		ip, n, err := net.ParseCIDR(s)
		if err != nil {
			t.Fatal(err)
		}
		return &net.IPNet{IP: ip, Mask: n.Mask}
	}
	ranges := prefixes(t, "10.100.0.0/16", "fd00:100::/64")
	for _, c := range []struct{ name, address, want string }{
		{"eth0", "192.168.1.2/24", ""},
		{"eth0", "10.100.3.4/24", "10.100.0.0/16 overlaps the address 10.100.3.4/24 of eth0; use another range"},
		{"eth0", "10.1.2.3/8", "10.100.0.0/16 overlaps the address 10.1.2.3/8 of eth0"},
		{"eth0", "fd00:100::7/128", "fd00:100::/64 overlaps the address fd00:100::7/128 of eth0"},
		{"eth0", "fe80::1/64", ""},
		{bridge, "10.100.0.1/16", ""},
		{bridge, "fd00:100::1/64", ""},
		{bridge, "fe80::1/64", ""},
		{bridge, "fd00:99::1/64", ""},
		{bridge, "10.88.0.1/16", "the bridge podstead0 has the address 10.88.0.1/16, which pods that run depend on; the " +
			"range 10.100.0.0/16 is used after a reboot"},
		{bridge, "fd00:100::1/48", "the bridge podstead0 has the address fd00:100::1/48"},
	} {
		err := conflicts(ranges, c.name, []net.Addr{addr(c.address)})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s of %s: %v, want %q", c.address, c.name, err, c.want)
		}
	}
}

// The cgroup driver changes only while nothing runs that was created with another one.
func TestSystemdCgroup(t *testing.T) {
	cfg := testbed(t)
	has := func() bool {
		t.Helper()
		if err := cfg.prepare(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(cfg.file())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "runtimes.runc.options]\n      SystemdCgroup = true\n")
	}
	if has() {
		t.Error("systemd without being set")
	}
	task := filepath.Join(cfg.State, "state/io.containerd.runtime.v2.task/k8s.io/a")
	if err := os.MkdirAll(task, 0o700); err != nil {
		t.Fatal(err)
	}
	cfg.SystemdCgroup = true
	if has() {
		t.Error("systemd while containers run that were created without")
	}
	if err := os.Remove(task); err != nil {
		t.Fatal(err)
	}
	if !has() {
		t.Error("no systemd although no container runs")
	}
	if err := os.Mkdir(task, 0o700); err != nil {
		t.Fatal(err)
	}
	if cfg.SystemdCgroup = false; !has() {
		t.Error("no systemd while containers run that were created with it")
	}
}
