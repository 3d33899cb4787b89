package cluster

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Config is what an Adapter is made of. All fields are needed but
// Registration, Certificates and Objects.
type Config struct {
	// Kubeconfig is the file that says where the API server is and who we are.
	Kubeconfig string
	UserAgent  string
	// Node describes the node.
	Node func() *v1.Node
	// Pods are those that run or end here.
	Pods Pods
	// Subscribe wakes after any of this changed, until the function is called.
	Subscribe func() (<-chan struct{}, func())
	Log       *slog.Logger
	// Events hears what a person should know, and has what is to be told there.
	Events       Events
	Registration Registration
	Certificates Certificates
	// Objects are filled with what the cluster's pods refer to; nil gets none.
	Objects *Objects
}

// Registration says how the node shows itself.
type Registration struct {
	// Elsewhere waits for somebody else to make the node's object.
	External bool
	// Taints and ProviderID are set when the node registers.
	Taints     []v1.Taint
	ProviderID string
	// Look is the time between two looks at what the node is, Report between two
	// reports of it while nothing changes; 0 are the kubelet's 10 s and 5 min.
	StatusInterval, ReportInterval time.Duration
	// Lease is how long the node counts as alive after its lease was renewed, which
	// is done four times in it; 0 is the kubelet's 40 s.
	LeaseDuration time.Duration
}

// The kubelet's defaults.
const (
	defaultStatusInterval = 10 * time.Second
	defaultReportInterval = 5 * time.Minute
	defaultLeaseDuration  = 40 * time.Second
)

func (r *Registration) setDefaults() {
	r.StatusInterval, r.ReportInterval, r.LeaseDuration = cmp.Or(r.StatusInterval, defaultStatusInterval), cmp.Or(r.ReportInterval, defaultReportInterval), cmp.Or(r.LeaseDuration, defaultLeaseDuration)
}

// Pods are the pods of the box.
type Pods struct {
	// List has all that run or end here, with their statuses and resolved
	// classes. Of two with one name the wanted one has no deletion timestamp.
	List func() []*v1.Pod
	// Delivered tells whether List has all pods of that source: other mirrors of
	// such are removed from then on.
	Delivered func(source string) bool
	// Ended tells whether everything of a pod has ended.
	Ended func(uid types.UID) bool
	// Bound takes the pods that the cluster binds to this node.
	Bound Deliverer
}

// Recorder records events about a pod, or the node if pod is nil. Implemented
// by event.Recorder.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// Adapter keeps the box's part of a cluster. It does nothing before Run.
type Adapter struct {
	cfg          Config
	name         string
	client       *client
	connection   *connection
	nodes        *reflector[*v1.Node]
	pods         *reflector[*v1.Pod]
	bound        *boundPods
	writer       *podWriter
	certificates *certificates

	drain drain

	// Room for one wake-up each.
	nodeChanged, leaseChanged, podsChanged, eventsChanged chan struct{}

	// The node loop's alone: when the status was last sent.
	reported time.Time
	// The lease loop's alone: what is known of it, nil is nothing, and when it was
	// renewed.
	lease   *coordinationv1.Lease
	renewed time.Time
	// The event loop's alone.
	sent sentEvents
}

// New reads the kubeconfig. It asks nothing of the API server yet.
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
		nodeChanged: make(chan struct{}, 1), leaseChanged: make(chan struct{}, 1),
		podsChanged: make(chan struct{}, 1), eventsChanged: make(chan struct{}, 1),
		sent: sentEvents{}, drain: drain{done: make(chan struct{}), stopped: make(chan struct{})},
	}
	a.connection = &connection{log: cfg.Log, onReachable: a.wakeAll}
	a.certificates = newCertificates(a, nil)
	return a
}

// use sets what the adapter asks by.
func (a *Adapter) setClient(c *client) {
	a.client = c
	// The selectors are those that the Node authorizer asks of a node.
	a.nodes = newReflector[*v1.Node](c.core, "nodes", "metadata.name="+a.name, a.connection, a.wakeAll)
	a.pods = newReflector[*v1.Pod](c.core, "pods", "spec.nodeName="+a.name, a.connection, func() {
		notify(a.podsChanged)
		notify(a.bound.changed)
		if a.cfg.Objects != nil {
			notify(a.cfg.Objects.changed)
		}
	})
	a.writer = newPodWriter(a)
	a.bound = &boundPods{Adapter: a, name: c.server, changed: make(chan struct{}, 1)}
}

func (a *Adapter) wakeAll() {
	notify(a.nodeChanged)
	notify(a.leaseChanged)
	notify(a.podsChanged)
	notify(a.bound.changed)
	notify(a.eventsChanged)
}

// Run keeps the node, its lease, its certificates, the pods in the API and the
// events, and brings the pods that the cluster binds to this node, until the
// context ends. While the node cannot prove who it is, it asks for a certificate
// only.
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
	wg.Go(func() { a.runLoop(ctx, a.nodeChanged, a.syncNode) })
	wg.Go(func() { a.runLoop(ctx, a.leaseChanged, a.syncLease) })
	wg.Go(func() { a.runLoop(ctx, a.eventsChanged, a.sendEvents) })
	wg.Go(func() { a.bound.run(ctx) })
	wg.Go(func() { a.writer.run(ctx) })
	if a.cfg.Objects != nil {
		wg.Go(func() { a.cfg.Objects.run(ctx, a) })
	}
	for {
		select {
		case <-changed:
			notify(a.nodeChanged)
			notify(a.podsChanged)
		case <-happened:
			notify(a.eventsChanged)
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

func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// keep calls sync whenever it is woken, and when the time that sync returned has
// passed; 0 waits for the next wake-up. After a failure it waits, woken or not,
// but for an API server that answers again. It logs a refusal once until there is
// another or none; that nobody answers is the link's to tell.
func (a *Adapter) runLoop(ctx context.Context, woken <-chan struct{}, sync func(context.Context) (time.Duration, error)) {
	failures, told := 0, ""
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
			if own && err.Error() != told {
				told = err.Error()
				a.cfg.Log.Warn("API request failed, retrying", "err", err)
			}
			if !a.connection.backoff(ctx, failures) {
				return
			}
			continue
		}
		failures, told = 0, ""
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
