package addresses

import (
	"cmp"
	"net/netip"
	"slices"
)

// tables are the addresses and default routes of the kernel.
type tables struct {
	addresses []address
	defaults  []route
}

// address is an address of an interface, in the kernel's order.
type address struct {
	ip    netip.Addr
	iface int
	// secondary marks a secondary IPv4 address, or a temporary or deprecated IPv6
	// one: used if there is no other.
	secondary bool
}

// route is one of the default routes.
type route struct {
	v6     bool
	iface  int
	metric uint32
	// source is the preferred source address of the route, if it has one.
	source netip.Addr
}

// loopbackIndex is the interface lo, which may have a node's address that routing
// protocols announce.
const loopbackIndex = 1

// interfaces returns the interfaces of the default routes.
func (t tables) interfaces() []int {
	var all []int
	for _, r := range t.defaults {
		all = append(all, r.iface)
	}
	return all
}

// choose returns the address of each family with the best default route, IPv4
// first unless v6First is set. A known address that is still valid is kept, so
// that the kernel's order does not matter.
func choose(t tables, known []netip.Addr, v6First bool) []netip.Addr {
	var found []netip.Addr
	for _, v6 := range []bool{v6First, !v6First} {
		routes := slices.Clone(t.defaults)
		routes = slices.DeleteFunc(routes, func(r route) bool { return r.v6 != v6 })
		slices.SortStableFunc(routes, func(a, b route) int { return cmp.Compare(a.metric, b.metric) })
		for _, r := range routes {
			if ip := t.source(r, known); ip.IsValid() {
				found = append(found, ip)
				break
			}
		}
	}
	return found
}

// source returns the address of a route.
func (t tables) source(r route, known []netip.Addr) netip.Addr {
	if r.source.IsValid() {
		return r.source
	}
	for _, iface := range []int{r.iface, loopbackIndex} {
		for _, lesser := range []bool{false, true} {
			var fit []netip.Addr
			for _, a := range t.addresses {
				if a.iface == iface && a.secondary == lesser && a.ip.Is6() == r.v6 {
					fit = append(fit, a.ip)
				}
			}
			for _, ip := range fit {
				if slices.Contains(known, ip) {
					return ip
				}
			}
			if len(fit) > 0 {
				return fit[0]
			}
		}
	}
	return netip.Addr{}
}
