package nameserver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/singleflight"
)

// Timeouts of a query to the name servers of the node: of one attempt, and of all of them, which
// is less than the 5 s after which resolvers ask again.
const (
	attemptTimeout = 1500 * time.Millisecond
	forwardTimeout = 4500 * time.Millisecond
	// packetSize is the largest UDP packet in bytes, which no network fragments (DNS flag day 2020).
	packetSize = 1232
)

var errNoUpstream = errors.New("the node has no name server")

// exchange sends a query to a name server over a network, udp or tcp.
type exchange func(ctx context.Context, network, server string, query *dns.Msg) (*dns.Msg, error)

// forwarder asks the name servers of the node.
type forwarder struct {
	cache     *cache
	upstreams upstreams
	flights   singleflight.Group
	exchange  exchange
	// large are the responses that are read over TCP.
	large *limiter
}

func newForwarder(large *limiter) *forwarder {
	return &forwarder{cache: newCache(), exchange: exchangeOnce, large: large}
}

func exchangeOnce(ctx context.Context, network, server string, query *dns.Msg) (*dns.Msg, error) {
	client := &dns.Client{Net: network, Timeout: attemptTimeout, UDPSize: packetSize}
	response, _, err := client.ExchangeContext(ctx, query, server)
	return response, err
}

// cached returns the response to a query if it is known, nil if not.
func (f *forwarder) cached(query *dns.Msg) *dns.Msg { return f.cache.get(keyOf(query)) }

// ask returns the response of the node's name servers in a snapshot to a query that is counted to a client. Equal
// queries at the same time are sent once. The caller must not write to the response.
func (f *forwarder) ask(ctx context.Context, query *dns.Msg, client netip.Addr, s *Snapshot) (*dns.Msg, error) {
	key := keyOf(query)
	response, err, _ := f.flights.Do(fmt.Sprint(key), func() (any, error) {
		servers, err := f.upstreams.list(s.ResolvConf, s.Listen)
		if err != nil {
			return nil, err
		}
		response, err := f.askEach(ctx, servers, upstreamQuery(query), client)
		if err == nil {
			f.cache.add(key, response)
		}
		return response, err
	})
	if err != nil {
		return nil, err
	}
	return response.(*dns.Msg), nil
}

// askEach asks one server after another until one answers.
func (f *forwarder) askEach(ctx context.Context, servers []string, query *dns.Msg, client netip.Addr) (*dns.Msg,
	error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	var failed *dns.Msg
	err := errNoUpstream
	for _, server := range servers {
		response, askErr := f.askOne(ctx, server, query, client)
		f.upstreams.report(server, askErr == nil)
		switch {
		case askErr != nil:
			err = fmt.Errorf("%s: %w", server, askErr)
		case response.Rcode == dns.RcodeServerFailure || response.Rcode == dns.RcodeRefused ||
			response.Rcode == dns.RcodeNotImplemented:
			failed = response // another server may know more
		default:
			return response, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	if failed != nil {
		return failed, nil
	}
	return nil, err
}

// askOne asks one server. The response is truncated if the client already has its limit of large ones.
func (f *forwarder) askOne(ctx context.Context, server string, query *dns.Msg, client netip.Addr) (*dns.Msg, error) {
	query = query.Copy()
	query.Id = dns.Id() // each packet has an ID and a port that an attacker has to guess
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	response, err := f.exchange(ctx, "udp", server, query)
	if err != nil {
		return nil, err
	}
	if response.Truncated && f.large.acquire(client) {
		defer f.large.release(client)
		if response, err = f.exchange(ctx, "tcp", server, query); err != nil {
			return nil, err
		}
	}
	if !isResponseTo(response, query) {
		return nil, errors.New("the answer is to another question")
	}
	return response, nil
}

func isResponseTo(response, query *dns.Msg) bool {
	if !response.Response || len(response.Question) != 1 {
		return false
	}
	a, q := response.Question[0], query.Question[0]
	return a.Qtype == q.Qtype && a.Qclass == q.Qclass && strings.EqualFold(a.Name, q.Name)
}

// upstreamQuery returns the query that is sent for that of a client: what the client adds to its
// question goes no further.
func upstreamQuery(query *dns.Msg) *dns.Msg {
	out := new(dns.Msg)
	out.RecursionDesired, out.CheckingDisabled = true, query.CheckingDisabled
	out.Question = []dns.Question{query.Question[0]}
	out.SetEdns0(packetSize, keyOf(query).dnssec)
	return out
}
