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
)

const (
	// defaultInterval is the kubelet's httpCheckFrequency.
	defaultInterval = 20 * time.Second
	// defaultTimeout is the kubelet's, for a request with its body.
	defaultTimeout = 10 * time.Second
	// firstRetry is the first back-off as long as there was no answer at all:
	// the network may just be coming up. Later it is the interval.
	firstRetry = time.Second
	// maxRetry bounds the back-off, which doubles. A longer interval stands.
	maxRetry = 2 * time.Minute
	// retryJitter spreads many daemons that lost the same server: a back-off
	// is longer by up to that part of it.
	retryJitter = 0.5
	// restorePatience is how long the first answer is waited for before the
	// checkpoint serves: pods of a machine that boots without a network do
	// not wait for a timeout, and those of one with a network are not started
	// from a revision that is replaced at once.
	restoreDelay = 2 * time.Second
)

// URLSourceOptions are what a URLSource needs.
type URLSourceOptions struct {
	// URL is http or https. Userinfo and query values are secrets: no fault
	// and no log line shows them.
	URL string
	// Header is sent with each request, but not to another host.
	Header http.Header
	// CAFile is a PEM file of the certificate authorities to trust instead of
	// the system's; empty trusts the system's. It is read again after a
	// failure, so that it can be replaced.
	CAFile string
	// Node is the name of this node: pods of the checkpoint that carry
	// another are judged anew. Empty takes them as they are.
	Node string
	// Interval is the time between two requests; zero means 20 seconds, the
	// kubelet's httpCheckFrequency.
	Interval time.Duration
	// Timeout is that of one request with its body; zero means 10 seconds,
	// as at the kubelet.
	Timeout    time.Duration
	Loader     UnitLoader
	Checkpoint *Checkpoint
	Deliver    Deliverer
}

// URLSource delivers the manifests behind a URL, which are one unit.
//
// An answer other than 200 and 304, or none, keeps the last good revision and
// is asked for again with a growing back-off. A broken body keeps it too, and
// is asked for again after the interval: the server is well. As long as there
// was no answer in this run of the daemon, the checkpoint's revision is
// delivered as restored, which does not count as delivered.
type URLSource struct {
	opts    URLSourceOptions
	name    string
	reader  unitReader
	fetcher urlFetcher
	// jitter is in [0,1).
	jitter func() float64

	// unit and digest are of the last body, answered says that there was one
	// in this run of the daemon.
	unit     Unit
	digest   string
	answered bool
	// fault is that of the last request, failures count since the last answer.
	fault    *Fault
	failures int
	// delivered says that there was a whole set in this run of the daemon.
	delivered bool
}

// NewURLSource makes a URLSource; it starts nothing. The error is for a URL
// that cannot be one and for a CA file without certificates.
func NewURLSource(opts URLSourceOptions) (*URLSource, error) {
	if opts.Interval <= 0 {
		opts.Interval = defaultInterval
	}
	if opts.Timeout <= 0 {
		opts.Timeout = defaultTimeout
	}
	address, err := url.Parse(opts.URL)
	if err != nil {
		// Its text holds the URL.
		return nil, errors.New("the manifest URL is not valid; must be a URL such as https://example.com/pods.yaml")
	}
	name := redactURL(address)
	if address.Scheme != "http" && address.Scheme != "https" || address.Host == "" {
		return nil, errors.New("the manifest URL " + name + " is not an http or https URL; must be a URL such as https://example.com/pods.yaml")
	}
	s := &URLSource{
		opts:    opts,
		name:    name,
		reader:  unitReader{source: SourceHTTP, node: opts.Node, loader: opts.Loader, checkpoint: opts.Checkpoint, hadGood: map[string]bool{}},
		fetcher: urlFetcher{url: address, header: canonical(opts.Header), caFile: opts.CAFile, timeout: opts.Timeout},
		jitter:  rand.Float64,
	}
	return s, s.fetcher.connect()
}

// redactURL is the URL as faults and logs show it: without userinfo, without
// the values of the query, and without a fragment.
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
// change, until ctx ends. It returns no error: whatever goes wrong is a fault
// of the set and may pass.
func (s *URLSource) Run(ctx context.Context) error {
	defer s.fetcher.close()
	timer := time.NewTimer(restoreDelay)
	defer timer.Stop()
	for {
		// The request has a goroutine of its own, so that the checkpoint can
		// overtake the first one. Its timeout and ctx end it.
		answers := make(chan urlAnswer, 1)
		go func() { answers <- s.fetcher.fetch(ctx) }()
		var answer urlAnswer
		select {
		case answer = <-answers:
		case <-timer.C:
			s.setFault("has not answered yet")
			answer = <-answers
		}
		if ctx.Err() != nil {
			return nil
		}
		timer.Reset(s.handle(answer))
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
	}
}

// take makes a set of an answer and returns the time until the next request.
func (s *URLSource) handle(answer urlAnswer) time.Duration {
	if answer.err != nil {
		s.failures++
		s.setFault(answer.err.Error())
		s.fetcher.reloadCA()
		return s.backOff()
	}
	s.failures = 0
	unit := s.unit
	switch {
	case answer.fault != nil:
		unit, s.digest = s.reader.lastGood(s.name, Faults{*answer.fault}), ""
	case !answer.unchanged:
		if digest := Digest(answer.body); digest != s.digest {
			unit, s.digest = s.reader.read(s.name, answer.body), digest
		}
	}
	changed := !s.answered || s.fault != nil || !sameUnit(s.unit, unit)
	s.answered, s.unit, s.fault = true, unit, nil
	if changed {
		s.deliver()
	}
	return s.opts.Interval
}

// fail keeps what there is, with that fault of the source.
func (s *URLSource) setFault(problem string) {
	fault := Fault{Unit: s.name, Problem: problem, Remedy: "its pods keep running; retrying"}
	if s.fault != nil && *s.fault == fault {
		return
	}
	s.fault = &fault
	s.deliver()
}

// backOff is the time until the next request after a failure.
func (s *URLSource) backOff() time.Duration {
	delay := s.opts.Interval
	if !s.answered {
		delay = min(delay, firstRetry)
	}
	for range s.failures - 1 {
		if delay >= maxRetry {
			break
		}
		delay = min(2*delay, maxRetry)
	}
	return delay + time.Duration(retryJitter*s.jitter()*float64(delay))
}

// deliver hands over the set as it is now.
func (s *URLSource) deliver() {
	set := Set{Source: SourceHTTP, Fault: s.fault, Time: time.Now()}
	if s.answered {
		set.Units = []Unit{s.unit}
	}
	// A body that never was good says nothing about what it ought to hold.
	if s.answered && (s.unit.Digest != "" || !s.unit.Faults.Fatal()) {
		s.delivered = true
	}
	if !s.delivered {
		set.Restored = true
		for _, unit := range s.opts.Checkpoint.units(SourceHTTP) {
			if !s.answered || unit.Name != s.name {
				set.Units = append(set.Units, s.reader.lastGood(unit.Name, unit.Faults))
			}
		}
		slices.SortFunc(set.Units, func(a, b Unit) int { return strings.Compare(a.Name, b.Name) })
	}
	s.opts.Deliver.Deliver(set)
}
