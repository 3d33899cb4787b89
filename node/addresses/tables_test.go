package addresses

import (
	"fmt"
	"net/netip"
	"testing"
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestChoose(t *testing.T) {
	const eth, wlan, bridge = 2, 3, 4
	both := []address{{ip: ip("10.0.0.2"), iface: eth}, {ip: ip("2001:db8::2"), iface: eth},
		{ip: ip("10.88.0.1"), iface: bridge}, {ip: ip("192.168.1.2"), iface: wlan}}
	v4, v6 := route{iface: eth, metric: 100}, route{iface: eth, v6: true, metric: 1024}
	for name, c := range map[string]struct {
		addresses []address
		defaults  []route
		known     []netip.Addr
		v6First   bool
		want      string
	}{
		"no route":             {both, nil, nil, false, "[]"},
		"IPv4":                 {both, []route{v4}, nil, false, "[10.0.0.2]"},
		"both":                 {both, []route{v6, v4}, nil, false, "[10.0.0.2 2001:db8::2]"},
		"both, IPv6 first":     {both, []route{v6, v4}, nil, true, "[2001:db8::2 10.0.0.2]"},
		"the best metric":      {both, []route{{iface: wlan, metric: 600}, v4}, nil, false, "[10.0.0.2]"},
		"the route's own":      {both, []route{{iface: eth, source: ip("10.0.0.9")}}, nil, false, "[10.0.0.9]"},
		"no address there yet": {both, []route{{iface: 9}, {iface: wlan, metric: 600}}, nil, false, "[192.168.1.2]"},
		"one on lo": {[]address{{ip: ip("10.255.0.1"), iface: loopbackIndex}}, []route{v4}, nil, false,
			"[10.255.0.1]"},
		"the better of two": {[]address{{ip: ip("10.0.0.3"), iface: eth, secondary: true}, {ip: ip("10.0.0.2"), iface: eth}},
			[]route{v4}, nil, false, "[10.0.0.2]"},
		"no better one": {[]address{{ip: ip("10.0.0.3"), iface: eth, secondary: true}}, []route{v4}, nil, false,
			"[10.0.0.3]"},
		"the known one": {[]address{{ip: ip("2001:db8::3"), iface: eth}, {ip: ip("2001:db8::2"), iface: eth}}, []route{v6},
			[]netip.Addr{ip("2001:db8::2")}, false, "[2001:db8::2]"},
		"a known one that is gone": {both, []route{v4}, []netip.Addr{ip("10.0.0.8")}, false, "[10.0.0.2]"},
	} {
		if got := fmt.Sprint(choose(tables{c.addresses, c.defaults}, c.known, c.v6First)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
