package nameserver

import (
	"context"
	"net/netip"

	"github.com/miekg/dns"
)

const (
	// maxQuery is the largest query in bytes. The name of a question has at most 255.
	maxQuery = 4096
	// minUDPSize is what every client accepts over UDP, in bytes.
	minUDPSize = 512
)

// request is a query that has passed the checks which need no records.
type request struct {
	query  *dns.Msg
	client netip.Addr
	// counted is the address to whose limits the query counts.
	counted netip.Addr
	// size is the largest reply in bytes.
	size int
}

// parse decodes a query. reply is set instead if it is answered without a look at its question; a
// nil request without a reply is not answered at all: what is no query must cause no packet.
func parse(packet []byte, client netip.Addr, tcp bool) (r *request, reply *dns.Msg) {
	if len(packet) > maxQuery {
		return nil, nil
	}
	query := new(dns.Msg)
	if err := query.Unpack(packet); err != nil || query.Response {
		return nil, nil
	}
	refuse := func(rcode int) *dns.Msg {
		reply := &dns.Msg{MsgHdr: dns.MsgHdr{Id: query.Id, Response: true, Opcode: query.Opcode, Rcode: rcode}}
		return reply
	}
	switch {
	case query.Opcode != dns.OpcodeQuery:
		return nil, refuse(dns.RcodeNotImplemented)
	case len(query.Question) != 1:
		return nil, refuse(dns.RcodeFormatError)
	}
	switch query.Question[0].Qtype {
	case dns.TypeAXFR, dns.TypeIXFR:
		return nil, refuse(dns.RcodeRefused)
	}
	r = &request{query: query, client: client, size: dns.MaxMsgSize}
	if !tcp {
		r.size = minUDPSize
		if opt := query.IsEdns0(); opt != nil {
			r.size = min(max(int(opt.UDPSize()), minUDPSize), packetSize)
		}
	}
	return r, nil
}

// local returns the reply to a query that needs no other server, nil if it has to be forwarded.
func (s *Server) local(r *request, n *names) *dns.Msg {
	if reply := n.answer(r.query, r.client); reply != nil {
		if len(reply.Answer) > 0 {
			if alias, ok := reply.Answer[0].(*dns.CNAME); ok && r.query.Question[0].Qtype != dns.TypeCNAME {
				return s.localAlias(r, n, reply, alias.Target)
			}
		}
		return reply
	}
	if answer := s.forward.cached(r.query); answer != nil {
		return replyFrom(r.query, answer)
	}
	return nil
}

// localAlias completes the reply for an alias whose target is known; nil if that has to be asked
// for first.
func (s *Server) localAlias(r *request, n *names, reply *dns.Msg, target string) *dns.Msg {
	query := queryFor(r.query, target)
	answer := n.answer(query, r.client)
	if answer == nil {
		answer = s.forward.cached(query)
	}
	if answer == nil {
		return nil
	}
	reply.Answer = append(reply.Answer, answer.Answer...)
	reply.Rcode = answer.Rcode
	return reply
}

// remote returns the reply to a query that local did not answer.
func (s *Server) remote(ctx context.Context, r *request, n *names) *dns.Msg {
	query := r.query
	alias := n.answer(r.query, r.client)
	if alias != nil {
		query = queryFor(r.query, alias.Answer[0].(*dns.CNAME).Target)
	}
	answer, err := s.forward.ask(ctx, query, r.counted, n.Snapshot)
	if err != nil {
		s.log.Debug("Failed to forward a query", "err", err)
		s.stats.failed.Add(1)
		return new(dns.Msg).SetRcode(r.query, dns.RcodeServerFailure)
	}
	if alias != nil {
		alias.Answer = append(alias.Answer[:1], answer.Answer...)
		alias.Ns, alias.Rcode = nil, answer.Rcode
		return alias
	}
	return replyFrom(r.query, answer)
}

// queryFor returns a query for another name.
func queryFor(query *dns.Msg, name string) *dns.Msg {
	copied := query.Copy()
	copied.Question[0].Name = name
	return copied
}

// replyFrom returns the reply to a client with the answer of another server.
func replyFrom(query, answer *dns.Msg) *dns.Msg {
	reply := new(dns.Msg).SetReply(query)
	reply.Rcode, reply.RecursionAvailable, reply.Truncated = answer.Rcode&0xf, true, answer.Truncated
	reply.Answer, reply.Ns = answer.Answer, answer.Ns
	dnssec := keyOf(query).dnssec
	reply.AuthenticatedData = answer.AuthenticatedData && (dnssec || query.AuthenticatedData)
	for _, rr := range answer.Extra {
		if rr.Header().Rrtype != dns.TypeOPT {
			reply.Extra = append(reply.Extra, rr)
		}
	}
	return reply
}

// pack returns the packet of a reply, within the client's size.
func (r *request) pack(reply *dns.Msg) ([]byte, error) {
	if r.query.IsEdns0() != nil {
		reply.SetEdns0(packetSize, keyOf(r.query).dnssec)
	}
	reply.Compress = true
	reply.Truncate(r.size)
	return reply.Pack()
}
