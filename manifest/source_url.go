package manifest

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/podstead/podstead/internal/retry"
)

const (
	// defaultInterval is the kubelet's httpCheckFrequency.
	defaultInterval = 20 * time.Second
	// defaultTimeout is the kubelet's timeout for a request with its body.
	defaultTimeout = 10 * time.Second
	// firstRetry is the first back-off before there was any response, since the
	// network may just be starting. Later it is the interval.
	firstRetry = time.Second
	// maxRetry is the maximum of the back-off, which doubles. A longer interval
	// is not reduced.
	maxRetry = 2 * time.Minute
	// retryJitter spreads the retries of many daemons that use the same server:
	// a back-off is extended by up to this fraction.
	retryJitter = 0.5
	// restoreDelay is how long the first response is awaited before the
	// checkpoint is used: pods of a host that boots without a network do not
	// wait for a timeout, and those of a host with a network are not started
	// from a revision that is replaced at once.
	restoreDelay = 2 * time.Second
)

// URLSourceOptions configures a URLSource.
type URLSourceOptions struct {
	// URL is an http or https URL. Its userinfo and query values are secrets:
	// no fault and no log line contains them.
	URL string
	// Header is sent with each request, but not to another host.
	Header http.Header
	// CAFile is a PEM file of the certificate authorities to trust instead of
	// the system's; empty trusts the system's. It is read again after a
	// failure, so that it can be replaced.
	CAFile string
	// Node is the name of this node: pods of the checkpoint with another node
	// name are validated again. Empty uses them as they are.
	Node string
	// Interval is the time between two requests; zero means 20 seconds, the
	// kubelet's httpCheckFrequency.
	Interval time.Duration
	// Timeout applies to one request with its body; zero means 10 seconds, as
	// in the kubelet.
	Timeout time.Duration
	// Keys verify the signature of the body, which is requested with SignatureSuffix at
	// the end of the URL's path; nil accepts an unsigned body.
	Keys       Verifier
	Loader     UnitLoader
	Checkpoint *Checkpoint
	Deliver    Deliverer
	// Read is called after each response with a body, or that the body has not
	// changed; nil is not called.
	Read func(at time.Time)
}

// URLSource delivers the manifests behind a URL, which are one unit.
//
// A status other than 200 and 304, or no response, keeps the last good revision
// and is retried with a growing back-off. An invalid body keeps it too, and is
// requested again after the interval, since the server is healthy. Until there
// is a response in this run of the daemon, the checkpoint's revision is
// delivered as restored, which does not count as delivered.
type URLSource struct {
	opts    URLSourceOptions
	name    string
	reader  unitReader
	fetcher urlFetcher
	// jitter returns a value in [0,1).
	jitter func() float64

	// unit and digest are those of the last body, responded reports that there
	// was one in this run of the daemon.
	unit      Unit
	digest    string
	responded bool
	// readAt is the time of the last response, zero before the first.
	readAt time.Time
	// fault is the fault of the last request, failures counts the failures
	// since the last response.
	fault    *Fault
	failures int
	// delivered reports that there was a complete set in this run of the
	// daemon.
	delivered bool
}

// NewURLSource creates a URLSource; it starts nothing. The error is for an
// invalid URL and for a CA file without certificates.
func NewURLSource(opts URLSourceOptions) (*URLSource, error) {
	if opts.Interval <= 0 {
		opts.Interval = defaultInterval
	}
	if opts.Timeout <= 0 {
		opts.Timeout = defaultTimeout
	}
	address, err := url.Parse(opts.URL)
	if err != nil {
		// The parser's error contains the URL.
		return nil, errors.New("the manifest URL is not valid; must be a URL such as https://example.com/pods.yaml")
	}
	name := redactURL(address)
	if address.Scheme != "http" && address.Scheme != "https" || address.Host == "" {
		return nil, errors.New("the manifest URL " + name +
			" is not an http or https URL; must be a URL such as https://example.com/pods.yaml")
	}
	s := &URLSource{
		opts: opts,
		name: name,
		reader: unitReader{source: SourceHTTP, node: opts.Node, loader: opts.Loader, checkpoint: opts.Checkpoint,
			keys: opts.Keys, hadGood: map[string]bool{}},
		fetcher: urlFetcher{url: address, header: canonical(opts.Header), caFile: opts.CAFile, timeout: opts.Timeout,
			signed: opts.Keys != nil},
		jitter: rand.Float64,
	}
	return s, s.fetcher.connect()
}

// redactURL returns the URL for faults and logs: without userinfo, query values
// and fragment.
func redactURL(address *url.URL) string {
	shown := *address
	shown.Fragment, shown.RawFragment = "", ""
	if shown.User != nil {
		shown.User = url.User("REDACTED")
	}
	if shown.RawQuery != "" {
		query := shown.Query()
		for key := range query {
			query[key] = []string{"REDACTED"}
		}
		shown.RawQuery = query.Encode()
	}
	return shown.String()
}

// Run delivers the first set as soon as there is one and then one after each
// change, until ctx ends. It returns no error: any problem is a fault of the
// set and may be temporary.
func (s *URLSource) Run(ctx context.Context) error {
	defer s.fetcher.close()
	timer := time.NewTimer(restoreDelay)
	defer timer.Stop()
	for {
		// The request runs in its own goroutine, so that the checkpoint can be
		// used before the first response. Its timeout and ctx end it.
		responses := make(chan urlResponse, 1)
		go func() { responses <- s.fetcher.fetch(ctx) }()
		var response urlResponse
		select {
		case response = <-responses:
		case <-timer.C:
			s.setFault("has not answered yet")
			response = <-responses
		}
		if ctx.Err() != nil {
			return nil
		}
		timer.Reset(s.handle(response))
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
	}
}

// handle delivers the set of a response and returns the time until the next
// request.
func (s *URLSource) handle(response urlResponse) time.Duration {
	if response.err != nil {
		s.failures++
		s.setFault(response.err.Error())
		s.fetcher.reloadCA()
		return backOff(s.opts.Interval, s.responded, s.failures, s.jitter())
	}
	s.failures, s.readAt = 0, time.Now()
	unit := s.unit
	switch {
	case response.fault != nil:
		unit, s.digest = s.reader.lastGood(s.name, Faults{*response.fault}), ""
	case !response.unchanged:
		if digest := Digest(response.body); digest != s.digest {
			var unsigned bool
			s.digest = digest
			if unit, unsigned = s.reader.readSigned(s.name, response.body, response.signature); unsigned {
				// Both are requested again: the signature may come a moment later.
				s.digest, s.fetcher.etag, s.fetcher.modified = "", "", ""
			}
		}
	}
	changed := !s.responded || s.fault != nil || !sameUnit(s.unit, unit)
	s.responded, s.unit, s.fault = true, unit, nil
	if changed {
		s.deliver()
	}
	if s.opts.Read != nil {
		s.opts.Read(s.readAt)
	}
	return s.opts.Interval
}

// setFault keeps the current units, with that fault of the source.
func (s *URLSource) setFault(problem string) {
	fault := Fault{Unit: s.name, Problem: problem, Remedy: "its pods keep running; retrying"}
	if s.fault != nil && *s.fault == fault {
		return
	}
	s.fault = &fault
	s.deliver()
}

// backOff returns the time until the next request after so many failures. jitter is in
// [0,1).
func backOff(interval time.Duration, responded bool, failures int, jitter float64) time.Duration {
	delay := interval
	if !responded {
		delay = min(delay, firstRetry)
	}
	delay = max(delay, retry.Delay(failures, delay, maxRetry))
	return delay + time.Duration(retryJitter*jitter*float64(delay))
}

// deliver delivers the current set.
func (s *URLSource) deliver() {
	set := Set{Source: SourceHTTP, Fault: s.fault, Time: s.readAt}
	if set.Fault == nil {
		set.Fault = clearTextWarning(s.name, s.opts.URL)
	}
	if s.responded {
		set.Units = []Unit{s.unit}
	}
	// A body that was never valid reports nothing about the pods that should run.
	if s.responded && (s.unit.Digest != "" || !s.unit.Faults.Fatal()) {
		s.delivered = true
	}
	if !s.delivered {
		set.Restored = true
		if s.responded {
			set.Incomplete = []string{s.name}
		}
		for _, unit := range s.opts.Checkpoint.units(SourceHTTP) {
			if !s.responded || unit.Name != s.name {
				set.Units = append(set.Units, s.reader.lastGood(unit.Name, unit.Faults))
			}
		}
		slices.SortFunc(set.Units, func(a, b Unit) int { return strings.Compare(a.Name, b.Name) })
	}
	s.opts.Deliver.Deliver(set)
}
