package nameserver

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/podstead/podstead/node/nameserver/zone"
)

// recordTTL is the TTL in seconds of the names of pods and Services, and of answers that a name
// does not exist: CoreDNS' default.
const recordTTL = 5

// specVersion is the version of the Kubernetes DNS specification, which clients can ask for.
const specVersion = "1.1.0"

// defaultDomain is not a name of the public DNS, so that nothing in it is forwarded.
const defaultDomain = "cluster.local"

// names answers from one snapshot. It is immutable.
type names struct {
	*Snapshot
	// parents are the names that exist because names below them do.
	parents map[string]bool
}

func newNames(s *Snapshot) *names {
	n := &names{Snapshot: s, parents: map[string]bool{}}
	for name := range s.Zone.Names {
		for {
			_, parent, ok := strings.Cut(name, ".")
			if !ok || n.parents[parent] {
				break
			}
			n.parents[parent], name = true, parent
		}
	}
	return n
}

// answer returns the reply to a query for a name of this node; nil for one of which this node
// knows nothing, which is forwarded.
func (n *names) answer(query *dns.Msg, client netip.Addr) *dns.Msg {
	question := query.Question[0]
	name := strings.ToLower(strings.TrimSuffix(question.Name, "."))
	if question.Qclass != dns.ClassINET {
		return nil
	}
	if name == "localhost" {
		loopback := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
		return n.reply(query, zone.Records{Addresses: loopback})
	}
	if address, ok := reverseAddress(name); ok {
		return n.answerReverse(query, address)
	}
	records, exists := n.find(name, client)
	switch {
	case exists:
		return n.reply(query, records)
	case name == "dns-version."+n.Domain:
		return n.replyVersion(query)
	case n.parents[name]:
		return n.reply(query, zone.Records{})
	case n.owns(name):
		reply := n.reply(query, zone.Records{})
		reply.Rcode = dns.RcodeNameError
		return reply
	}
	return nil
}

// find returns the records of a full name, or of POD of the client's namespace. The short form is for programs that do
// not use the search list of resolv.conf; POD.NAMESPACE has none, because it would hide the names of the public DNS of
// two labels: the pod example of the namespace com those of example.com.
func (n *names) find(name string, client netip.Addr) (zone.Records, bool) {
	if records, ok := n.Zone.Names[name]; ok {
		return records, true
	}
	if strings.Contains(name, ".") {
		return zone.Records{}, false
	}
	records, ok := n.Zone.Names[zone.Name(name, cmp.Or(n.Zone.Namespaces[client], "default"), n.Domain)]
	return records, ok
}

// owns reports whether only this server knows a name. Of a domain that the administrator chose,
// which may be one of the public DNS, these are the names of Services and pods.
func (n *names) owns(name string) bool {
	for _, apex := range []string{zone.Apex(n.Domain), "pod." + n.Domain} {
		if name == apex || strings.HasSuffix(name, "."+apex) {
			return true
		}
	}
	return n.Domain == defaultDomain && (name == n.Domain || strings.HasSuffix(name, "."+n.Domain))
}

func (n *names) answerReverse(query *dns.Msg, address netip.Addr) *dns.Msg {
	found := n.Zone.Reverse[address]
	if len(found) == 0 && !n.isClient(address) {
		return nil
	}
	reply := n.reply(query, zone.Records{})
	if len(found) == 0 {
		reply.Rcode = dns.RcodeNameError
	}
	if q := query.Question[0]; len(found) > 0 && (q.Qtype == dns.TypePTR || q.Qtype == dns.TypeANY) {
		reply.Ns = nil
		for _, name := range found {
			reply.Answer = append(reply.Answer, &dns.PTR{Hdr: header(q.Name, dns.TypePTR), Ptr: dns.Fqdn(name)})
		}
	}
	return reply
}

// isClient reports whether an address is in a network of pods.
func (n *names) isClient(address netip.Addr) bool {
	return slices.ContainsFunc(n.Clients, func(p netip.Prefix) bool { return p.Contains(address) })
}

// allows reports whether a client of a listener is answered.
func (n *names) allows(client, listener netip.Addr) bool {
	if listener.IsLoopback() {
		return client.IsLoopback()
	}
	return n.isClient(client) || slices.Contains(n.Listen, client)
}

func header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: recordTTL}
}

// reply returns the authoritative reply with the records of the type that is asked for. The
// addresses are in random order, which spreads clients over them.
func (n *names) reply(query *dns.Msg, records zone.Records) *dns.Msg {
	reply := new(dns.Msg).SetReply(query)
	reply.Authoritative, reply.RecursionAvailable = true, true
	q := query.Question[0]
	is := func(kind uint16) bool { return q.Qtype == kind || q.Qtype == dns.TypeANY }
	if records.Alias != "" {
		reply.Answer = append(reply.Answer, &dns.CNAME{Hdr: header(q.Name, dns.TypeCNAME), Target: dns.Fqdn(records.Alias)})
	}
	reply.Answer = append(reply.Answer, addressRecords(q.Name, records.Addresses, is)...)
	if is(dns.TypeSRV) {
		for _, p := range records.Ports {
			reply.Answer = append(reply.Answer,
				&dns.SRV{Hdr: header(q.Name, dns.TypeSRV), Weight: uint16(100 / len(records.Ports)), Port: p.Port,
					Target: dns.Fqdn(p.Target)})
		}
		for _, p := range records.Ports {
			addresses := n.Zone.Names[p.Target].Addresses
			reply.Extra = append(reply.Extra,
				addressRecords(dns.Fqdn(p.Target), addresses, func(uint16) bool { return true })...)
		}
		reply.Extra = slices.CompactFunc(reply.Extra, func(a, b dns.RR) bool { return a.String() == b.String() })
	}
	rand.Shuffle(len(reply.Answer), func(i, k int) { reply.Answer[i], reply.Answer[k] = reply.Answer[k], reply.Answer[i] })
	if len(reply.Answer) == 0 {
		reply.Ns = []dns.RR{n.authority()}
	}
	return reply
}

func addressRecords(name string, addresses []netip.Addr, is func(uint16) bool) (records []dns.RR) {
	for _, a := range addresses {
		switch {
		case a.Is4() && is(dns.TypeA):
			records = append(records, &dns.A{Hdr: header(name, dns.TypeA), A: a.AsSlice()})
		case a.Is6() && is(dns.TypeAAAA):
			records = append(records, &dns.AAAA{Hdr: header(name, dns.TypeAAAA), AAAA: a.AsSlice()})
		}
	}
	return records
}

func (n *names) replyVersion(query *dns.Msg) *dns.Msg {
	reply := n.reply(query, zone.Records{})
	if q := query.Question[0]; q.Qtype == dns.TypeTXT || q.Qtype == dns.TypeANY {
		reply.Ns = nil
		reply.Answer = []dns.RR{&dns.TXT{Hdr: header(q.Name, dns.TypeTXT), Txt: []string{specVersion}}}
	}
	return reply
}

// authority is the record that limits how long clients remember that a name does not exist.
func (n *names) authority() dns.RR {
	domain := dns.Fqdn(n.Domain)
	return &dns.SOA{
		Hdr: header(domain, dns.TypeSOA), Ns: "ns.dns." + domain, Mbox: "hostmaster." + domain,
		Serial: 1, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: recordTTL,
	}
}

// reverseAddress returns the address of a name in in-addr.arpa or ip6.arpa.
func reverseAddress(name string) (netip.Addr, bool) {
	if digits, ok := strings.CutSuffix(name, ".in-addr.arpa"); ok {
		labels := strings.Split(digits, ".")
		slices.Reverse(labels)
		a, err := netip.ParseAddr(strings.Join(labels, "."))
		return a, err == nil && a.Is4()
	}
	digits, ok := strings.CutSuffix(name, ".ip6.arpa")
	if !ok || len(digits) != 63 {
		return netip.Addr{}, false
	}
	var text strings.Builder
	for i := 62; i >= 0; i -= 2 {
		text.WriteByte(digits[i])
		if i%8 == 0 && i > 0 {
			text.WriteByte(':')
		}
	}
	a, err := netip.ParseAddr(text.String())
	return a, err == nil && a.Is6() && !a.Is4In6()
}
