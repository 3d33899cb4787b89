package cluster

import (
	"context"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
)

// Config is what an Adapter is made of. All fields are needed but the last
// two.
type Config struct {
	// Kubeconfig is the file that says where the API server is and who we are.
	Kubeconfig string
	UserAgent  string
	// Node describes the node.
	Node func() *v1.Node
	// Static are the pods of files and URLs that run or end here, with their
	// statuses and resolved classes. Of two with one name the wanted one has no
	// deletion timestamp.
	Static func() []*v1.Pod
	// Delivered tells whether Static has all pods of that source: its other
	// mirrors are removed from then on.
	Delivered func(source string) bool
	// Subscribe wakes after any of this changed, until the function is called.
	Subscribe func() (<-chan struct{}, func())
	Log       *slog.Logger
	// Events hears what a person should know, and has what is to be told there.
	Events Events
	// Taints and ProviderID are set when the node registers.
	Taints     []v1.Taint
	ProviderID string
}

// Recorder records events about a pod, or the node if pod is nil. Implemented
// by event.Recorder.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// Adapter keeps the box's part of a cluster. It does nothing before Run.
type Adapter struct {
	cfg    Config
	name   string
	client *client
	link   *link
	nodes  *watched[*v1.Node]
	pods   *watched[*v1.Pod]

	// Room for one wake-up each.
	nodeChanged, mirrorsChanged, eventsChanged chan struct{}

	// The node loop's alone: when the status was last sent.
	reported time.Time
	// The lease loop's alone; nil is unknown.
	lease *coordinationv1.Lease
	// The event loop's alone.
	sent sentEvents
}

// New reads the kubeconfig. It asks nothing of the API server yet.
func New(cfg Config) (*Adapter, error) {
	c, err := connect(cfg.Kubeconfig, cfg.UserAgent)
	if err != nil {
		return nil, err
	}
	a := &Adapter{
		cfg: cfg, name: cfg.Node().Name, client: c, link: &link{log: cfg.Log},
		nodeChanged: make(chan struct{}, 1), mirrorsChanged: make(chan struct{}, 1), eventsChanged: make(chan struct{}, 1),
		sent: sentEvents{},
	}
	all := func() { wake(a.nodeChanged); wake(a.mirrorsChanged); wake(a.eventsChanged) }
	// The selectors are those that the Node authorizer asks of a node.
	if a.nodes, err = watch(c.core, "nodes", "metadata.name="+a.name, &v1.Node{}, a.link, all); err != nil {
		return nil, err
	}
	a.pods, err = watch(c.core, "pods", "spec.nodeName="+a.name, &v1.Pod{}, a.link, func() { wake(a.mirrorsChanged) })
	return a, err
}

// Run keeps the node, its lease, the mirror pods and the events until the
// context ends.
func (a *Adapter) Run(ctx context.Context) error {
	changed, end := a.cfg.Subscribe()
	defer end()
	happened, endEvents := a.cfg.Events.Subscribe()
	defer endEvents()
	var wg sync.WaitGroup
	wg.Go(func() { a.nodes.Run(ctx) })
	wg.Go(func() { a.pods.Run(ctx) })
	wg.Go(func() { keep(ctx, a.nodeChanged, a.cfg.Log, a.syncNode) })
	wg.Go(func() { a.keepLease(ctx) })
	wg.Go(func() { keep(ctx, a.eventsChanged, a.cfg.Log, a.sendEvents) })
	wg.Go(func() { newMirrors(a).run(ctx) })
	defer wg.Wait()
	for {
		select {
		case <-changed:
			wake(a.nodeChanged)
			wake(a.mirrorsChanged)
		case <-happened:
			wake(a.eventsChanged)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// The spacing of attempts that fail.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// retry is how long to wait after so many failures in a row.
func retry(failures int) time.Duration {
	d := firstRetry
	for range failures - 1 {
		if d *= 2; d >= lastRetry {
			return lastRetry
		}
	}
	return d
}

// keep calls sync whenever it is woken, and when the time that sync returned has
// passed; 0 waits for the next wake-up. After a failure it waits, woken or not.
// It logs a failure once until there is another or none.
func keep(ctx context.Context, woken <-chan struct{}, log *slog.Logger, sync func(context.Context) (time.Duration, error)) {
	failures, told := 0, ""
	for {
		next, err := sync(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if failures++; err.Error() != told {
				told = err.Error()
				log.Warn("cluster: it is tried again", "error", err)
			}
			if !sleep(ctx, retry(failures)) {
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

// sleep reports whether the time passed before the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// keepLease renews the lease. Its failures are the link's to tell: the watches
// see an API server that is away as well.
func (a *Adapter) keepLease(ctx context.Context) {
	failures, told := 0, ""
	for {
		// Until the node is registered there is nothing to renew.
		wait := leaseRenewal
		if a.node() == nil {
			wait = time.Second
		} else if err := a.renew(ctx); err != nil && ctx.Err() == nil {
			if failures++; failures > 1 && err.Error() != told {
				told = err.Error()
				a.cfg.Log.Warn("cannot renew the node's lease", "error", err)
			}
			wait = min(retry(failures), leaseRenewal)
		} else {
			failures, told = 0, ""
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}
