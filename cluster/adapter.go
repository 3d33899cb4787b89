package cluster

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/wakeup"
)

// Config configures an Adapter. All fields but Registration, Certificates,
// Objects, Storage and SentEvents are required.
type Config struct {
	// Kubeconfig is the file with the address of the API server and the
	// credentials.
	Kubeconfig string
	UserAgent  string
	// Node returns the description of the node.
	Node func() *v1.Node
	// Pods gives access to the pods of this node.
	Pods Pods
	// Subscribe notifies after any of the above changed, until the function is
	// called.
	Subscribe func() (<-chan struct{}, func())
	Log       *slog.Logger
	// Events records events, and has those that are sent to the API.
	Events Events
	// SentEvents keeps over a restart of the daemon which events were sent. With the zero value, those of the last
	// hour are sent again.
	SentEvents   StateFile
	Registration Registration
	Certificates Certificates
	// Objects receives what the cluster's pods refer to; nil disables it.
	Objects *Objects
	// Storage has the CSI drivers of the node and their volumes; nil disables it.
	Storage Storage
	// UpdatePodCIDR gives the runtime the address ranges of the node's pods, separated by
	// commas; nil disables it. errors.ErrUnsupported is the error of a runtime that has no
	// such call.
	UpdatePodCIDR func(ctx context.Context, cidrs string) error
	// Requests limits the requests other than heartbeats, EventRequests those that send
	// events.
	Requests, EventRequests RateLimit
}

// Registration configures the Node object.
type Registration struct {
	// External waits until the Node object exists instead of creating it.
	External bool
	// Taints and ProviderID are set when the node registers.
	Taints     []v1.Taint
	ProviderID string
	// ExternalCloud leaves the addresses of the node, and the end of a taint that it
	// registers with, to a cloud controller manager.
	ExternalCloud bool
	// StatusInterval is the time between two checks of the node, ReportInterval
	// between two reports while nothing changes; 0 are the kubelet's 10 s and 5
	// min.
	StatusInterval, ReportInterval time.Duration
	// LeaseDuration is how long the node counts as alive after a renewal of its
	// lease, which is renewed four times within it; 0 is the kubelet's 40 s.
	LeaseDuration time.Duration
}

// The kubelet's defaults.
const (
	defaultStatusInterval = 10 * time.Second
	defaultReportInterval = 5 * time.Minute
	defaultLeaseDuration  = 40 * time.Second
)

func (r *Registration) setDefaults() {
	r.StatusInterval, r.ReportInterval, r.LeaseDuration = cmp.Or(r.StatusInterval, defaultStatusInterval),
		cmp.Or(r.ReportInterval, defaultReportInterval), cmp.Or(r.LeaseDuration, defaultLeaseDuration)
}

// Pods gives access to the pods of this node.
type Pods struct {
	// List returns all pods that have not terminated, with their statuses and
	// resolved classes. Of two static pods with one name the desired one has no
	// deletion timestamp, and the other has one: it still terminates.
	List func() []*v1.Pod
	// Delivered reports whether List has all pods of a source: mirrors of its other
	// pods are deleted from then on.
	Delivered func(source string) bool
	// Ended reports whether all of a pod has terminated.
	Ended func(uid types.UID) bool
	// Started reports whether a pod was started here, also by a previous daemon; nil reports
	// none.
	Started func(uid types.UID) bool
	// Bound receives the pods that the cluster binds to this node.
	Bound Deliverer
}

// Recorder records events about a pod, or the node if pod is nil. Implemented by
// event.Recorder.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// Adapter represents this node in a cluster. It does nothing before Run. It has one
// field per task that Run starts, and what these tasks share.
type Adapter struct {
	cfg          Config
	name         string
	client       *client
	connection   *connection
	nodes        *reflector[*v1.Node]
	pods         *reflector[*v1.Pod]
	budget       *podBudget
	bound        *boundPods
	writer       *podWriter
	certificates *certificates

	drain drain

	// Each has room for one notification.
	nodeChanged, leaseChanged, podsChanged, eventsChanged, storageChanged wakeup.Signal

	// reported is when the node status was last sent, keptDiff the difference that the
	// API server then kept. Only the node loop uses them.
	reported time.Time
	keptDiff []byte
	podCIDR  podCIDR
	storage  nodeStorage
	// lease is the last known lease, nil if it is unknown, and renewed when it was
	// renewed. Only the lease loop uses them.
	lease   *coordinationv1.Lease
	renewed time.Time
	// Only the event loop uses sent.
	sent sentEvents
}

// New reads the kubeconfig. It sends no request yet.
func New(cfg Config) (*Adapter, error) {
	a := newAdapter(cfg)
	if err := a.connect(); err != nil {
		return nil, err
	}
	return a, nil
}

func newAdapter(cfg Config) *Adapter {
	cfg.Registration.setDefaults()
	a := &Adapter{
		cfg: cfg, name: cfg.Node().Name,
		nodeChanged: wakeup.NewSignal(), leaseChanged: wakeup.NewSignal(),
		podsChanged: wakeup.NewSignal(), eventsChanged: wakeup.NewSignal(), storageChanged: wakeup.NewSignal(),
		storage: nodeStorage{wasRegistered: map[string]bool{}},
		sent:    newSentEvents(cfg.SentEvents), drain: drain{done: make(chan struct{}), stopped: make(chan struct{})},
	}
	a.connection = &connection{log: cfg.Log, onReachable: a.wakeAll}
	a.certificates = newCertificates(a, nil)
	return a
}

// setClient sets the client of the adapter.
func (a *Adapter) setClient(c *client) {
	a.client = c
	// The Node authorizer requires these selectors.
	a.nodes = newReflector[*v1.Node](c.core, "nodes", "metadata.name="+a.name, a.connection, a.wakeAll)
	a.pods = newReflector[*v1.Pod](c.core, "pods", "spec.nodeName="+a.name, a.connection, func() {
		a.podsChanged.Notify()
		a.bound.changed.Notify()
		if a.cfg.Objects != nil {
			a.cfg.Objects.changed.Notify()
		}
	})
	a.budget = newPodBudget(a.cfg.Pods.Started)
	a.pods.reduce, a.pods.decode, a.pods.forget, a.pods.retain = a.budget.reduce, a.budget.decodeList, a.budget.remove,
		a.budget.retain
	a.writer = newPodWriter(a)
	a.bound = &boundPods{Adapter: a, name: c.server, changed: wakeup.NewSignal()}
}

// acceptedPods returns the pods of this node in the API without those that have no space in
// memory, and whether the first list has succeeded.
func (a *Adapter) acceptedPods() (map[string]*v1.Pod, bool) {
	known, synced := a.pods.Objects()
	maps.DeleteFunc(known, func(_ string, pod *v1.Pod) bool { return a.budget.refusal(pod.UID) != "" })
	return known, synced
}

func (a *Adapter) wakeAll() {
	a.nodeChanged.Notify()
	a.leaseChanged.Notify()
	a.podsChanged.Notify()
	a.bound.changed.Notify()
	a.eventsChanged.Notify()
	a.storageChanged.Notify()
	if a.cfg.Objects != nil {
		a.cfg.Objects.nodeChanged()
	}
}

// Run maintains the node, its lease, its certificates, the pods in the API and the
// events, and delivers the pods that the cluster binds to this node, until the
// context ends. Until the node has a certificate, it only requests one.
func (a *Adapter) Run(ctx context.Context) error {
	changed, end := a.cfg.Subscribe()
	defer end()
	happened, endEvents := a.cfg.Events.Subscribe()
	defer endEvents()
	defer a.drain.stop()
	outer := ctx
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { a.certificates.run(ctx) })
	select {
	case <-a.certificates.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	wg.Go(func() { a.nodes.Run(ctx) })
	wg.Go(func() { a.pods.Run(ctx) })
	wg.Go(func() { a.runLoop(ctx, a.nodeChanged.C(), a.syncNode) })
	wg.Go(func() { a.runLoop(ctx, a.leaseChanged.C(), a.syncLease) })
	wg.Go(func() {
		a.runLoop(ctx, a.eventsChanged.C(), a.sendEvents)
		a.saveSentEvents()
	})
	wg.Go(func() { a.bound.run(ctx) })
	wg.Go(func() { a.writer.run(ctx) })
	if a.cfg.Storage != nil {
		wg.Go(func() { a.runLoop(ctx, a.storageChanged.C(), a.syncCSINode) })
		wg.Go(func() { a.followStorage(ctx) })
	}
	if a.cfg.Objects != nil {
		wg.Go(func() { a.cfg.Objects.run(ctx, a) })
	}
	for {
		select {
		case <-changed:
			a.nodeChanged.Notify()
			a.podsChanged.Notify()
		case <-happened:
			a.eventsChanged.Notify()
		case <-a.drain.done:
			stop()
			wg.Wait()
			a.drain.stop()
			<-outer.Done()
			return outer.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// runLoop calls sync after each notification, and after the time that sync
// returned; 0 waits for the next notification. After a failure it backs off, but
// continues at once when the API server responds again. It logs a refusal once
// until the reason changes; the connection logs an unreachable API server.
func (a *Adapter) runLoop(ctx context.Context, woken <-chan struct{},
	sync func(context.Context) (time.Duration, error)) {
	failures, logged := 0, ""
	for {
		next, err := sync(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			own := a.connection.isOwnError(err)
			if own {
				failures++
			}
			if own && err.Error() != logged {
				logged = err.Error()
				a.cfg.Log.Warn("API request failed, retrying", "err", err)
			}
			if !a.connection.backoff(ctx, failures) {
				return
			}
			continue
		}
		failures, logged = 0, ""
		var due <-chan time.Time
		if next > 0 {
			due = time.After(next)
		}
		select {
		case <-woken:
		case <-due:
		case <-ctx.Done():
			return
		}
	}
}
