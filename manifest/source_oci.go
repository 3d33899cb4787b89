package manifest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podstead/podstead/internal/registry"
)

// pollJitter spreads the requests of many nodes that were started together: the interval
// is extended by up to this fraction.
const pollJitter = 0.1

// OCISourceOptions configures an OCISource.
type OCISourceOptions struct {
	// Artifacts are references such as registry.example.com/fleet/web:stable, one for each
	// repository. A reference with a digest is read once.
	Artifacts []string
	// Registry reads them, with Credentials.
	Registry    ArtifactRegistry
	Credentials ArtifactCredentials
	// WithoutTLS reports whether a host is reached without TLS; nil reports false.
	WithoutTLS func(host string) bool
	// Verify is called for each new digest before the artifact is read. An error keeps the
	// last good revision, and Verify is called again at the next request: a signature may
	// follow its artifact. An error of class registry.ErrUnreachable counts as a failed
	// request. nil accepts all.
	Verify func(ctx context.Context, artifact Artifact) error
	// Node is the name of this node; see URLSourceOptions.
	Node string
	// Interval is the time between two requests for a digest; zero means 20 seconds.
	Interval   time.Duration
	Loader     UnitLoader
	Checkpoint *Checkpoint
	Deliver    Deliverer
	// Read is called with the oldest time at which one of the artifacts was read, after each
	// answer; nil is not called.
	Read func(at time.Time)
}

// OCISource delivers the manifests in OCI artifacts, each of which is one unit.
//
// A tag is resolved at an interval, and read when its digest changed. A registry that does
// not respond, or has the tag no longer, keeps the last good revision and is retried with a
// growing back-off, as a URL is. An invalid artifact keeps it too; its digest is not read
// again. Until each artifact was read in this run of the daemon, the revisions of the
// checkpoint are delivered as restored.
type OCISource struct {
	opts OCISourceOptions
	// jitter returns a value in [0,1).
	jitter func() float64

	// mu protects what follows, of which the goroutine of each artifact writes its own.
	mu        sync.Mutex
	reader    unitReader
	artifacts []*artifactState
	// restoring reports that an artifact could not be read at once: the checkpoint is used
	// for all that were not read.
	restoring bool
	// delivered reports that there was a complete set in this run of the daemon.
	delivered bool
}

// artifactState is the state of one artifact.
type artifactState struct {
	name    string
	fetcher artifactFetcher
	// pinned reports that the reference has a digest.
	pinned bool

	// unit is that of the last response, responded reports that there was one in this run of the
	// daemon, readAt is its time.
	unit      Unit
	responded bool
	readAt    time.Time
	// fault is why the last request failed, failures counts those since the last response.
	fault    *Fault
	failures int
}

// ArtifactName returns the name of the unit of a reference: without its tag and digest,
// which change from revision to revision.
func ArtifactName(r registry.Reference) string { return r.Name() }

// NewOCISource creates an OCISource; it starts nothing. The error is for an invalid
// reference.
func NewOCISource(opts OCISourceOptions) (*OCISource, error) {
	references, err := registry.ParseArtifacts(opts.Artifacts)
	if err != nil {
		return nil, err
	}
	if opts.Interval <= 0 {
		opts.Interval = defaultInterval
	}
	s := &OCISource{
		opts: opts, jitter: rand.Float64,
		reader: unitReader{source: SourceOCI, node: opts.Node, loader: opts.Loader, checkpoint: opts.Checkpoint,
			hadGood: map[string]bool{}},
	}
	for _, r := range references {
		s.artifacts = append(s.artifacts, &artifactState{
			name: ArtifactName(r), pinned: r.Digest != "",
			fetcher: artifactFetcher{reference: r, registry: opts.Registry, credentials: opts.Credentials, verify: opts.Verify},
		})
	}
	slices.SortFunc(s.artifacts, func(a, b *artifactState) int { return strings.Compare(a.name, b.name) })
	return s, nil
}

// Run delivers a set as soon as an artifact was read and then one after each change, until
// ctx ends. It returns no error: any problem is a fault and may be temporary.
func (s *OCISource) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	patience := time.AfterFunc(restoreDelay, func() { s.restore(ctx) })
	defer patience.Stop()
	for _, a := range s.artifacts {
		running.Go(func() { s.poll(ctx, a) })
	}
	<-ctx.Done()
	return nil
}

// poll reads one artifact until ctx ends, or until an artifact with a digest was read.
func (s *OCISource) poll(ctx context.Context, a *artifactState) {
	if a.pinned && s.resume(a) {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		response := a.fetcher.fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		delay := s.handle(a, response)
		if a.pinned && response.digest != "" {
			return
		}
		timer.Reset(delay)
	}
}

// resume uses the checkpoint for an artifact with a digest that is in effect already: its
// content cannot change, so that no registry is asked. What is to be verified is.
func (s *OCISource) resume(a *artifactState) bool {
	accepted, ok := s.opts.Checkpoint.accepted(SourceOCI, a.name)
	if !ok || s.opts.Verify != nil || accepted.Revision != a.fetcher.reference.Digest || !s.reader.isOfNode(accepted) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reader.hadGood[a.name] = true
	a.unit, a.responded, a.readAt = accepted, true, time.Now()
	s.deliver()
	return true
}

// restore uses the checkpoint for what was not read yet.
func (s *OCISource) restore(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil || s.delivered {
		return
	}
	s.restoring = true
	for _, a := range s.artifacts {
		if !a.responded && a.fault == nil {
			a.fault = &Fault{Unit: a.name, Problem: "the registry has not answered yet",
				Remedy: "its pods keep running; retrying"}
		}
	}
	s.deliver()
}

// handle delivers the set of a response, if it changed, and returns the time until the next
// request.
func (s *OCISource) handle(a *artifactState, response ociResponse) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if response.err != nil {
		s.handleFailure(a, response.err)
		return backOff(s.opts.Interval, a.responded, a.failures, s.jitter())
	}
	a.failures, a.readAt = 0, time.Now()
	unit := a.unit
	switch {
	case response.fault != nil:
		response.fault.Unit = a.name
		unit = s.reader.lastGood(a.name, Faults{*response.fault})
	case !response.unchanged:
		unit = s.reader.readArtifact(a.name, response.digest, response.files)
	}
	changed := !a.responded || a.fault != nil || !sameUnit(a.unit, unit)
	a.responded, a.unit, a.fault = true, unit, nil
	if changed {
		s.deliver()
	}
	if s.opts.Read != nil {
		s.opts.Read(s.readAt())
	}
	return s.opts.Interval + time.Duration(pollJitter*s.jitter()*float64(s.opts.Interval))
}

// handleFailure keeps the last good revision, with the reason and the time of the last
// answer.
func (s *OCISource) handleFailure(a *artifactState, err error) {
	a.failures++
	s.restoring = true
	problem := "cannot read " + a.fetcher.reference.String() + ": " + err.Error()
	if !a.readAt.IsZero() {
		problem += "; last read at " + a.readAt.Format(time.RFC3339)
	}
	fault := Fault{Unit: a.name, Problem: problem, Remedy: remedyFor(err)}
	if a.fault != nil && *a.fault == fault {
		return
	}
	a.fault = &fault
	s.deliver()
}

// remedyFor returns what to do about a failure.
func remedyFor(err error) string {
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return "push the tag again, or change --manifest-oci; its pods keep running"
	case errors.Is(err, registry.ErrUnauthorized):
		return "check the node's credentials for this repository, and its name; its pods keep running"
	}
	return "its pods keep running; retrying"
}

// readAt returns the oldest time at which an artifact was read, zero if one never was. An
// artifact with a digest counts only next to others that have none.
func (s *OCISource) readAt() time.Time {
	var oldest, pinned time.Time
	tags := false
	for _, a := range s.artifacts {
		switch {
		case a.pinned && a.responded:
			pinned = a.readAt
		case !tags || a.readAt.Before(oldest):
			oldest, tags = a.readAt, true
		}
	}
	if !tags {
		return pinned
	}
	return oldest
}

// deliver delivers the current set. mu is held. Nothing is delivered while all artifacts
// may still respond at once, so that none seems to be absent.
func (s *OCISource) deliver() {
	if !s.restoring && slices.ContainsFunc(s.artifacts, func(a *artifactState) bool { return !a.responded }) {
		return
	}
	set := Set{Source: SourceOCI, Time: s.readAt(), Fault: s.clearTextWarning()}
	known := map[string]bool{}
	whole := true
	for _, a := range s.artifacts {
		known[a.name] = true
		// An artifact that was never valid reports nothing about the pods that should run.
		if a.responded && a.unit.Digest == "" && a.unit.Faults.Fatal() {
			set.Incomplete = append(set.Incomplete, a.name)
		}
		whole = whole && a.responded && (a.unit.Digest != "" || !a.unit.Faults.Fatal())
		switch {
		case a.fault != nil && a.responded:
			unit := a.unit
			unit.Faults = append(Faults{*a.fault}, unit.Faults...)
			set.Units = append(set.Units, unit)
		case a.fault != nil:
			unit := s.reader.lastGood(a.name, Faults{*a.fault})
			set.Units, set.Awaited = append(set.Units, unit), set.Awaited || !unit.Restored
		case a.responded:
			set.Units = append(set.Units, a.unit)
		default:
			set.Awaited = true // another one has failed, and this one may still respond at once
		}
	}
	s.delivered = s.delivered || whole
	if s.delivered {
		set.Incomplete = nil
	} else {
		set.Restored = true
		if s.restoring {
			set.Units = append(set.Units, s.forgotten(known)...)
		}
	}
	slices.SortFunc(set.Units, func(a, b Unit) int { return strings.Compare(a.Name, b.Name) })
	s.opts.Deliver.Deliver(set)
}

// forgotten returns the units of the checkpoint that are of no artifact of this
// configuration. They are removed with the first complete set.
func (s *OCISource) forgotten(known map[string]bool) (units []Unit) {
	for _, unit := range s.opts.Checkpoint.units(SourceOCI) {
		if !known[unit.Name] {
			units = append(units, s.reader.lastGood(unit.Name, unit.Faults))
		}
	}
	return units
}

// clearTextWarning returns a warning about the first registry of another host that is read
// without TLS, nil if there is none.
func (s *OCISource) clearTextWarning() *Fault {
	for _, a := range s.artifacts {
		if host := a.fetcher.reference.Host; s.opts.WithoutTLS != nil && s.opts.WithoutTLS(host) &&
			!registry.IsLoopback(host) {
			return &Fault{Unit: a.name, Problem: readWithoutTLS,
				Remedy: "serve the registry over https", Warning: true}
		}
	}
	return nil
}
