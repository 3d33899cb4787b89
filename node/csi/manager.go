package csi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/sys/mountinfo"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/mounts"
	"github.com/podstead/podstead/node/plugins"
)

// Options configure a Manager.
type Options struct {
	// Dir is the directory that drivers know as /var/lib/kubelet: volumes are staged in
	// plugins/kubernetes.io/csi and published in pods below it.
	Dir string
	// Registry is the directory in which drivers register, for messages.
	Registry string
	// File is the path of the state, and BootID that of the present boot, empty if it is not known.
	File, BootID string
	// Timeout is for each call to a driver, by default 2 minutes, the kubelet's. LockTimeout is how
	// long an operation waits for another one on the same volume, by default 10 s.
	Timeout, LockTimeout time.Duration
	// Log takes the log messages; nil discards them.
	Log *slog.Logger
	// Mounts replaces /proc/self/mountinfo in tests.
	Mounts func() ([]*mountinfo.Info, error)
}

// Manager publishes volumes through the drivers that have registered.
type Manager struct {
	options Options
	log     *slog.Logger
	changed chan struct{}

	mu      sync.Mutex
	drivers map[string]*driver
	// state is nil until it is read.
	state *state
	locks map[string]*volumeLock
	// waiting are the pods that wait for a driver, by its name; ready are those whose driver has
	// registered.
	waiting map[string]map[types.UID]bool
	ready   map[types.UID]bool
}

// New returns a manager. It starts nothing.
func New(o Options) *Manager {
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	o.LockTimeout = cmp.Or(o.LockTimeout, 10*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Mounts == nil {
		o.Mounts = mounts.Self
	}
	return &Manager{
		options: o, log: o.Log, changed: make(chan struct{}, 1), drivers: map[string]*driver{}, locks: map[string]*volumeLock{},
		waiting: map[string]map[types.UID]bool{}, ready: map[types.UID]bool{},
	}
}

// Register implements plugins.Handler.
func (m *Manager) Register(ctx context.Context, p plugins.Plugin) (func(), error) {
	if !validDriver(p.Name) {
		return nil, fmt.Errorf("%q is not valid as the name of a CSI driver; it must be a domain name of at most 63 characters", p.Name)
	}
	if !slices.ContainsFunc(p.Versions, func(v string) bool { return strings.HasPrefix(strings.TrimPrefix(v, "v"), "1.") }) {
		return nil, fmt.Errorf("CSI versions %s are not supported; the driver must support version 1", strings.Join(p.Versions, ", "))
	}
	d, info, err := connect(ctx, p, m.options.Timeout)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.drivers[p.Name]; old != nil {
		m.log.Info("CSI driver registered again", "driver", p.Name, "endpoint", p.Endpoint)
	} else {
		m.log.Info("CSI driver registered", "driver", p.Name, "endpoint", p.Endpoint, "nodeID", info.nodeID)
	}
	m.drivers[p.Name] = d
	maps.Copy(m.ready, m.waiting[p.Name])
	delete(m.waiting, p.Name)
	m.notify()
	return func() { m.deregister(d) }, nil
}

// deregister ends the use of a driver, unless another one has its name now.
func (m *Manager) deregister(d *driver) {
	m.mu.Lock()
	if m.drivers[d.name] == d {
		delete(m.drivers, d.name)
		m.log.Info("CSI driver deregistered", "driver", d.name)
	}
	m.mu.Unlock()
	_ = d.conn.Close()
}

// notify signals the channel of Changed; the caller holds the mutex.
func (m *Manager) notify() {
	if len(m.ready) > 0 {
		select {
		case m.changed <- struct{}{}:
		default:
		}
	}
}

// Changed receives after a driver has registered for which pods wait; TakeChanged returns them.
func (m *Manager) Changed() <-chan struct{} { return m.changed }

// TakeChanged returns the pods that waited for a driver that has registered since the last call.
func (m *Manager) TakeChanged() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	uids := slices.Collect(maps.Keys(m.ready))
	clear(m.ready)
	return uids
}

// driverFor returns a driver.
func (m *Manager) driverFor(name string) (*driver, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.drivers[name]; d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("CSI driver %s is not registered on this node; start its pod, whose registrar must create a socket in %s", name, m.options.Registry)
}

// await notes that a pod is to be synced when a driver registers. If it is registered now, the pod is
// synced again in any case.
func (m *Manager) await(driver string, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting[driver] == nil {
		m.waiting[driver] = map[types.UID]bool{}
	}
	m.waiting[driver][uid] = true
}

// Pods returns the UIDs of the pods that use volumes of drivers, also those of which nothing else is
// left.
func (m *Manager) Pods() ([]types.UID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.load(); err != nil {
		return nil, err
	}
	found := map[types.UID]bool{}
	for _, r := range m.state.Volumes {
		for _, p := range r.Pods {
			found[p.UID] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// volumeLock is held during an operation on a volume.
type volumeLock struct {
	token chan struct{}
	users int
}

// lock starts an operation on a volume. Another operation that does not end is an error: its driver
// hangs.
func (m *Manager) lock(ctx context.Context, driver, handle string) (unlock func(), err error) {
	key := driver + "\x00" + handle
	m.mu.Lock()
	l := m.locks[key]
	if l == nil {
		l = &volumeLock{token: make(chan struct{}, 1)}
		m.locks[key] = l
	}
	l.users++
	m.mu.Unlock()
	leave := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(m.locks, key)
		}
	}
	limit := time.NewTimer(m.options.LockTimeout)
	defer limit.Stop()
	select {
	case l.token <- struct{}{}:
		return func() { <-l.token; leave() }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = fmt.Errorf("CSI driver %s has not ended another operation on volume %s; look at its pod's log, and restart the pod", driver, handle)
	}
	leave()
	return nil, err
}

// mountedAt returns what is mounted at a path, nil if nothing is.
func (m *Manager) mountedAt(path string) (*mountinfo.Info, error) {
	// The kernel reports paths without links.
	dir, err := filepath.EvalSymlinks(m.options.Dir)
	if err != nil {
		return nil, err
	}
	if rest, ok := strings.CutPrefix(path, m.options.Dir+"/"); ok {
		path = filepath.Join(dir, rest)
	}
	points, err := m.options.Mounts()
	if err != nil {
		return nil, fmt.Errorf("failed to read mounts: %w", err)
	}
	for _, point := range slices.Backward(points) {
		if point.Mountpoint == path {
			return point, nil
		}
	}
	return nil, nil
}

var errNoDirectory = errors.New("the node has no directory for CSI volumes")
