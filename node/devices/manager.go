package devices

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/device"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wakeup"
)

// SocketName is the name of the registration socket in the directory.
const SocketName = "kubelet.sock"

// lostPeriod is how long the capacity of the node counts the devices of a plugin that has gone,
// as at the kubelet. They are not allocatable meanwhile.
const lostPeriod = 5 * time.Minute

// Options configure a Manager.
type Options struct {
	// Dir is the directory of the registration socket and of the plugins' sockets.
	Dir string
	// Checkpoint is the file of the allocations.
	Checkpoint string
	// Local are the devices of the node that need no plugin, by resource.
	Local map[v1.ResourceName]Local
	// Sys is the directory of sysfs, with the NUMA nodes of local devices; empty for /sys.
	Sys string
	// SocketCheck is how often the registration socket is looked for, in case its removal was not
	// observed: 0 is once a minute.
	SocketCheck time.Duration
	// Disk is where it is.
	Disk statefile.Disk
	// Log takes the log messages; nil discards them.
	Log *slog.Logger
	// Timeouts limits the calls to plugins; zero fields have their defaults.
	Timeouts Timeouts
}

// Timeouts limit the calls to plugins.
type Timeouts struct {
	// Connect is for the first call to a plugin, by default 10 s. Preferred is for
	// GetPreferredAllocation, by default 10 s; Allocate and PreStart by default 30 s.
	Connect, Preferred, Allocate, PreStart time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	t.Connect = cmp.Or(t.Connect, 10*time.Second)
	t.Preferred = cmp.Or(t.Preferred, 10*time.Second)
	t.Allocate = cmp.Or(t.Allocate, 30*time.Second)
	t.PreStart = cmp.Or(t.PreStart, 30*time.Second)
	return t
}

// Manager allocates devices. It is safe for concurrent use.
type Manager struct {
	options Options
	log     *slog.Logger
	// changed notifies the consumer, saveRequested Run.
	changed, saveRequested wakeup.Signal
	// watched has the plugins of the plugin watcher, for Run (no capacity).
	watched chan watched
	// store has the checkpoint.
	store checkpointStore
	// created is the registration socket; only Open and Run use it.
	created os.FileInfo
	// plugins are the goroutines of Run that talk to plugins.
	plugins sync.WaitGroup

	mu sync.Mutex
	// disabled is why plugins cannot register, nil if they can.
	disabled  error
	resources map[v1.ResourceName]*deviceResource
	pods      map[types.UID]*podDevices
	waiting   map[types.UID]*waiter
	// healthChanged are the pods whose devices changed their health since TakeChanged.
	healthChanged map[types.UID]bool
	// near is set by SetAffinity; may be nil.
	near func(uid types.UID, container string, nodes []int) bool
}

// deviceResource is a resource that a plugin has registered, now or before, or one of local devices.
type deviceResource struct {
	// local is nil for a resource of plugins. slots are the IDs of its devices, by ID the device.
	local *Local
	slots map[string]string
	// plugin is the one that registered last, nil while none is connected. older are those that registered before
	// it and are still connected.
	plugin *plugin
	older  []*plugin
	// devices are those of the last list by ID; true is healthy.
	devices map[string]bool
	// nodes are the NUMA nodes of the devices whose plugin or, for local devices, driver reports them.
	nodes map[string][]int
	// lostAt is when the plugin went away.
	lostAt time.Time
}

// add makes a plugin the one that is used. It ends the connection to one at the same socket.
func (r *deviceResource) add(p *plugin) {
	if r.plugin != nil {
		r.older = append(r.older, r.plugin)
	}
	r.older = slices.DeleteFunc(r.older, func(before *plugin) bool {
		if before.socket != p.socket {
			return false
		}
		before.end()
		return true
	})
	r.plugin = p
}

// remove removes a plugin that is gone, and reports whether it was the one that is used. Then its successor is the
// newest of the older ones, nil if there is none.
func (r *deviceResource) remove(p *plugin) (used bool, successor *plugin) {
	if r == nil {
		return false, nil
	}
	if r.plugin != p {
		r.older = slices.DeleteFunc(r.older, func(before *plugin) bool { return before == p })
		return false, nil
	}
	r.plugin = nil
	if last := len(r.older) - 1; last >= 0 {
		r.plugin, r.older = r.older[last], r.older[:last]
		if r.plugin.listed {
			r.devices, r.nodes = r.plugin.devices, r.plugin.nodes
		}
		return true, r.plugin
	}
	r.lostAt = time.Now()
	return true, nil
}

// podDevices is what one pod has.
type podDevices struct {
	// name is the pod's, as namespace/name.
	name       string
	containers map[string]map[v1.ResourceName]*allocation
	// tentative: plugins are being asked, and nothing is saved yet. responded: all of them have
	// responded.
	tentative, responded bool
}

// allocation is what a container has of one resource: the IDs of devices, and what the plugin
// reports they add to the container.
type allocation struct {
	ids      []string
	assigned device.Assignment
	// preStart: the plugin prepares the devices before each start of the container.
	preStart bool
}

func (p *podDevices) set(container string, name v1.ResourceName, a *allocation) {
	if p.containers == nil {
		p.containers = map[string]map[v1.ResourceName]*allocation{}
	}
	if p.containers[container] == nil {
		p.containers[container] = map[v1.ResourceName]*allocation{}
	}
	p.containers[container][name] = a
}

// New returns a manager with the allocations of the checkpoint. It starts nothing.
func New(o Options) *Manager {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Timeouts = o.Timeouts.withDefaults()
	m := &Manager{
		options: o, log: o.Log, changed: wakeup.NewSignal(), saveRequested: wakeup.NewSignal(), watched: make(chan watched),
		store:     checkpointStore{file: checkpointFormat.File(o.Checkpoint, o.Disk)},
		resources: map[v1.ResourceName]*deviceResource{}, pods: map[types.UID]*podDevices{}, waiting: map[types.UID]*waiter{},
		healthChanged: map[types.UID]bool{},
	}
	saved, err := m.store.file.Load()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.log.Error("Failed to read the checkpoint of device allocations; a container that has devices does not restart "+
			"before its pod is restarted",
			"file", o.Checkpoint, "err", err)
	}
	m.restore(saved)
	for name, local := range o.Local {
		m.resources[name] = &deviceResource{local: &local}
	}
	m.updateLocal()
	return m
}

// Disable records why no plugin can register, for the messages of pods that wait for devices.
func (m *Manager) Disable(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disabled = err
}

// Changed receives after devices were registered, released or changed their health.
func (m *Manager) Changed() <-chan struct{} { return m.changed.C() }

// TakeChanged returns the pods that have a device whose health changed, once, and those that
// wait for devices.
func (m *Manager) TakeChanged() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	var uids []types.UID
	for uid := range m.healthChanged {
		uids = append(uids, uid)
	}
	clear(m.healthChanged)
	for uid := range m.waiting {
		uids = append(uids, uid)
	}
	return uids
}

// Resources returns how many devices the node has and how many of them are healthy, of each
// resource that was ever registered here or is configured.
func (m *Manager) Resources() (capacity, allocatable v1.ResourceList) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.resources) == 0 {
		return nil, nil
	}
	capacity, allocatable = v1.ResourceList{}, v1.ResourceList{}
	for name, r := range m.resources {
		all, healthy := len(r.devices), r.healthy()
		if r.local == nil && r.plugin == nil && time.Since(r.lostAt) > lostPeriod {
			all = 0
		}
		capacity[name] = *resource.NewQuantity(int64(all), resource.DecimalSI)
		allocatable[name] = *resource.NewQuantity(int64(healthy), resource.DecimalSI)
	}
	return capacity, allocatable
}

// healthy returns the number of healthy devices.
func (r *deviceResource) healthy() (n int) {
	if !r.isListed() {
		return 0
	}
	for _, healthy := range r.devices {
		if healthy {
			n++
		}
	}
	return n
}

// isListed reports whether the devices are known: they are local ones, or a plugin is connected that
// has listed them.
func (r *deviceResource) isListed() bool {
	return r != nil && (r.local != nil || r.plugin != nil && r.plugin.listed)
}

// Status returns, by container, the health of the devices that a pod has, for its status.
func (m *Manager) Status(uid types.UID) map[string][]v1.ResourceStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[uid]
	if p == nil || p.tentative {
		return nil
	}
	all := map[string][]v1.ResourceStatus{}
	for container, resources := range p.containers {
		for name, a := range resources {
			status := v1.ResourceStatus{Name: name}
			for _, id := range a.ids {
				status.Resources = append(status.Resources,
					v1.ResourceHealth{ResourceID: v1.ResourceID(id), Health: m.resources[name].healthOf(id)})
			}
			all[container] = append(all[container], status)
		}
		slices.SortFunc(all[container], func(a, b v1.ResourceStatus) int { return cmp.Compare(a.Name, b.Name) })
	}
	return all
}

func (r *deviceResource) healthOf(id string) v1.ResourceHealthStatus {
	if !r.isListed() {
		return v1.ResourceHealthStatusUnknown
	}
	if r.devices[id] {
		return v1.ResourceHealthStatusHealthy
	}
	return v1.ResourceHealthStatusUnhealthy
}

// noteHealth notes the pods that have a device of the resource. mu is held.
func (m *Manager) noteHealth(name v1.ResourceName) {
	for uid, p := range m.pods {
		for _, resources := range p.containers {
			if resources[name] != nil {
				m.healthChanged[uid] = true
			}
		}
	}
}

// Release takes back the devices of a pod of which nothing runs any more.
func (m *Manager) Release(uid types.UID) {
	m.mu.Lock()
	_, had := m.pods[uid]
	_, waited := m.waiting[uid]
	delete(m.pods, uid)
	delete(m.waiting, uid)
	m.mu.Unlock()
	if had {
		m.saveLater()
	}
	if had || waited {
		m.changed.Notify()
	}
}

// Retain releases the devices of all pods but those that keep reports.
func (m *Manager) Retain(keep func(types.UID) bool) {
	m.mu.Lock()
	var gone []types.UID
	for uid := range m.pods {
		if !keep(uid) {
			gone = append(gone, uid)
		}
	}
	for uid := range m.waiting {
		if !keep(uid) {
			gone = append(gone, uid)
		}
	}
	m.mu.Unlock()
	for _, uid := range gone {
		m.Release(uid)
	}
}
