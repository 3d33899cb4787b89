package csi

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/sys/mountinfo"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/mounts"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wakeup"
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
	// Republish is how long a driver that wants to be called again and again is not called for a volume, at
	// least; by default 1 minute, at which a kubelet syncs pods.
	Republish time.Duration
	// ExpandWait is how long the sync of a pod waits for the expansion of a volume; by default 5 s.
	ExpandWait time.Duration
	// Log takes the log messages; nil discards them.
	Log *slog.Logger
	// Disk is where it is.
	Disk statefile.Disk
	// Mounts replaces /proc/self/mountinfo in tests, and Unmount the unmounting of a path.
	Mounts  func() ([]*mountinfo.Info, error)
	Unmount func(path string) error
}

// Manager publishes volumes through the drivers that have registered.
type Manager struct {
	options Options
	log     *slog.Logger
	changed wakeup.Signal

	// file has the state. It takes mu while it writes.
	file *statefile.File[state]
	// mu is never held during a call to a driver or a write.
	mu      sync.Mutex
	drivers map[string]*driver
	// disabled reports why no driver can register.
	disabled error
	// state is nil until it is read. unreadableSince is when that first failed; zero if it did not.
	state           *state
	unreadableSince time.Time
	locks           map[string]*volumeLock
	// waiting are the pods that wait for a driver, by its name; ready are those whose driver has
	// registered.
	waiting map[string]map[types.UID]bool
	ready   map[types.UID]bool
	// subscribers are notified after the drivers or the volumes in use have changed.
	subscribers wakeup.Broadcast
}

// New returns a manager. It starts nothing.
func New(o Options) *Manager {
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	o.LockTimeout = cmp.Or(o.LockTimeout, 10*time.Second)
	o.Republish = cmp.Or(o.Republish, time.Minute)
	o.ExpandWait = cmp.Or(o.ExpandWait, 5*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Mounts == nil {
		o.Mounts = mounts.Self
	}
	if o.Unmount == nil {
		o.Unmount = unmount
	}
	return &Manager{
		options: o, log: o.Log, file: stateFormat.File(o.File, o.Disk), changed: wakeup.NewSignal(),
		drivers: map[string]*driver{}, locks: map[string]*volumeLock{},
		waiting: map[string]map[types.UID]bool{}, ready: map[types.UID]bool{},
	}
}

// Register implements plugins.Handler.
func (m *Manager) Register(ctx context.Context, p plugins.Plugin) (func(), error) {
	if !validDriver(p.Name) {
		return nil, fmt.Errorf("%q is not valid as the name of a CSI driver; it must be a domain name of at most 63 "+
			"characters", p.Name)
	}
	if !slices.ContainsFunc(p.Versions,
		func(v string) bool { return strings.HasPrefix(strings.TrimPrefix(v, "v"), "1.") }) {
		return nil, fmt.Errorf("CSI versions %s are not supported; the driver must support version 1",
			strings.Join(p.Versions, ", "))
	}
	d, err := connect(ctx, p, m.options.Timeout)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.drivers[p.Name]; old != nil {
		m.log.Info("CSI driver registered again", "driver", p.Name, "endpoint", p.Endpoint)
	} else {
		m.log.Info("CSI driver registered", "driver", p.Name, "endpoint", p.Endpoint, "nodeID", d.info.nodeID)
	}
	m.drivers[p.Name] = d
	m.subscribers.Notify()
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
		m.subscribers.Notify()
		m.log.Info("CSI driver deregistered", "driver", d.name)
	}
	m.mu.Unlock()
	_ = d.conn.Close()
}

// Disable records why no driver can register on this node.
func (m *Manager) Disable(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disabled = err
}

// driverFor returns a driver that has registered.
func (m *Manager) driverFor(name string) (*driver, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.drivers[name]; d != nil {
		return d, nil
	}
	if m.disabled != nil {
		return nil, fmt.Errorf("CSI driver %s is not registered on this node, where drivers cannot register: %w", name,
			m.disabled)
	}
	return nil, fmt.Errorf("CSI driver %s is not registered on this node; start its pod, whose registrar creates a "+
		"socket in %s", name, m.options.Registry)
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
