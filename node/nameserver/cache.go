package nameserver

import (
	"container/list"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Limits of the cache: its entries, the bytes of their packets, and how long a response is
// remembered whatever its TTL.
const (
	maxCacheEntries = 8192
	maxCacheBytes   = 4 << 20
	maxCacheTTL     = time.Hour
	maxNegativeTTL  = 5 * time.Minute
	// entryOverhead is what an entry needs besides its packet, in bytes.
	entryOverhead = 256
)

// cacheKey is what responses depend on.
type cacheKey struct {
	name                 string
	kind, class          uint16
	dnssec, checkDisable bool
}

func keyOf(query *dns.Msg) cacheKey {
	q := query.Question[0]
	key := cacheKey{name: strings.ToLower(q.Name), kind: q.Qtype, class: q.Qclass, checkDisable: query.CheckingDisabled}
	if opt := query.IsEdns0(); opt != nil {
		key.dnssec = opt.Do()
	}
	return key
}

// cacheEntry is a response as a packet, whose size is known, unlike that of its records in memory.
type cacheEntry struct {
	key             cacheKey
	packet          []byte
	stored, expires time.Time
}

// cache remembers responses of the node's name servers. The entry that was not used for the longest
// time is forgotten first. It is safe for concurrent use.
type cache struct {
	mu      sync.Mutex
	entries map[cacheKey]*list.Element
	// order has the entry that was used last first.
	order *list.List
	bytes int
}

func newCache() *cache { return &cache{entries: map[cacheKey]*list.Element{}, order: list.New()} }

// get returns the response, with the TTLs that are left, nil if there is none.
func (c *cache) get(key cacheKey) *dns.Msg {
	now := time.Now()
	c.mu.Lock()
	found := c.entries[key]
	if found == nil {
		c.mu.Unlock()
		return nil
	}
	entry := found.Value.(*cacheEntry)
	if !now.Before(entry.expires) {
		c.remove(found)
		c.mu.Unlock()
		return nil
	}
	c.order.MoveToFront(found)
	c.mu.Unlock()
	response := new(dns.Msg)
	if err := response.Unpack(entry.packet); err != nil {
		return nil
	}
	age := uint32(now.Sub(entry.stored) / time.Second)
	left := uint32(entry.expires.Sub(now)/time.Second) + 1
	eachRecord(response, func(h *dns.RR_Header) { h.Ttl = min(h.Ttl-min(h.Ttl, age), left) })
	return response
}

// add remembers a response as long as its TTLs allow.
func (c *cache) add(key cacheKey, response *dns.Msg) {
	ttl := lifetime(response)
	if ttl <= 0 {
		return
	}
	response = response.Copy()
	response.Compress = true
	packet, err := response.Pack()
	if err != nil || len(packet)+entryOverhead > maxCacheBytes/16 {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if before := c.entries[key]; before != nil {
		c.remove(before)
	}
	c.entries[key] = c.order.PushFront(&cacheEntry{key: key, packet: packet, stored: now, expires: now.Add(ttl)})
	c.bytes += len(packet) + entryOverhead
	for c.bytes > maxCacheBytes || c.order.Len() > maxCacheEntries {
		c.remove(c.order.Back())
	}
}

// remove forgets an entry; mu is held.
func (c *cache) remove(e *list.Element) {
	entry := c.order.Remove(e).(*cacheEntry)
	delete(c.entries, entry.key)
	c.bytes -= len(entry.packet) + entryOverhead
}

// lifetime returns how long a response may be remembered, 0 for not at all. A response that a name
// or a record does not exist is remembered as long as its SOA record reports (RFC 2308).
func lifetime(response *dns.Msg) time.Duration {
	if response.Truncated || response.Rcode != dns.RcodeSuccess && response.Rcode != dns.RcodeNameError {
		return 0
	}
	limit := maxCacheTTL
	if len(response.Answer) == 0 || response.Rcode == dns.RcodeNameError {
		limit = 0
		for _, rr := range response.Ns {
			if soa, ok := rr.(*dns.SOA); ok {
				limit = min(time.Duration(soa.Minttl)*time.Second, maxNegativeTTL)
			}
		}
	}
	eachRecord(response, func(h *dns.RR_Header) { limit = min(limit, time.Duration(h.Ttl)*time.Second) })
	return limit
}

// eachRecord calls f for the header of each record, except OPT, which is no data.
func eachRecord(m *dns.Msg, f func(*dns.RR_Header)) {
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			if h := rr.Header(); h.Rrtype != dns.TypeOPT {
				f(h)
			}
		}
	}
}
