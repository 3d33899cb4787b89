package dra

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	internaldevice "github.com/podstead/podstead/internal/device"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wakeup"
)

// Options configure a Manager.
type Options struct {
	// Checkpoint is the file of the prepared claims.
	Checkpoint string
	// Claims reads ResourceClaims.
	Claims internaldevice.ResourceClaims
	// Disk is where it is.
	Disk statefile.Disk
	// Log takes the log messages; nil discards them.
	Log *slog.Logger
	// Timeout is for each call to a driver, by default the kubelet's 45 s. RetryDelay is between two
	// attempts to unprepare the claims of pods that are gone, by default the kubelet's minute.
	Timeout, RetryDelay time.Duration
	// Slices deletes the ResourceSlices of drivers without a connection; nil without a cluster. SliceDelay is
	// how long such a driver may take to connect again, by default the kubelet's 30 s.
	Slices     ResourceSlices
	SliceDelay time.Duration
}

// Manager prepares ResourceClaims. It is safe for concurrent use.
type Manager struct {
	options Options
	log     *slog.Logger
	// changed notifies the consumer, due Run, left DeleteSlices.
	changed, due, left wakeup.Signal

	// file has the checkpoint. It takes mu while it writes.
	file *statefile.File[checkpoint]

	mu sync.Mutex
	// sequence is that of the checkpoint that was written last.
	sequence uint64
	// drivers are the registrations of each driver, the newest one last.
	drivers map[string][]*driver
	claims  map[types.NamespacedName]*claim
	// waiting are the pods whose claims could not be prepared.
	waiting map[types.UID]bool
	// gone are pods that ended while no daemon ran, and that have claims.
	gone map[types.UID]bool
	// absent has since when drivers have no connection whose slices are not deleted yet; empty without a cluster.
	absent map[string]time.Time
	// disabled is why no driver can register; nil if drivers can.
	disabled error
}

// claim is a claim that drivers have prepared or that they were asked to prepare.
type claim struct {
	key     types.NamespacedName
	uid     types.UID
	drivers []string
	// busy is a semaphore of one: it is full while a driver is talked to about the claim.
	busy chan struct{}

	// Protected by Manager.mu. prepared: the drivers have prepared it since this daemon started.
	pods     map[types.UID]bool
	devices  []device
	prepared bool
	// removed: the drivers have unprepared it; the claim is not in the state any more.
	removed bool
}

func newClaim(key types.NamespacedName, uid types.UID, drivers []string) *claim {
	return &claim{key: key, uid: uid, drivers: drivers, busy: make(chan struct{}, 1), pods: map[types.UID]bool{}}
}

func (c *claim) lock(ctx context.Context) error {
	select {
	case c.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *claim) unlock() { <-c.busy }

// message is the claim as drivers receive it.
func (c *claim) message() *drapb.Claim {
	return &drapb.Claim{Namespace: c.key.Namespace, Name: c.key.Name, Uid: string(c.uid)}
}

// New returns a manager with the claims of the checkpoint. It starts nothing.
func New(o Options) *Manager {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Timeout, o.RetryDelay = cmp.Or(o.Timeout, 45*time.Second), cmp.Or(o.RetryDelay, time.Minute)
	o.SliceDelay = cmp.Or(o.SliceDelay, 30*time.Second)
	m := &Manager{
		options: o, log: o.Log, file: checkpointFormat.File(o.Checkpoint, o.Disk), changed: wakeup.NewSignal(),
		due: wakeup.NewSignal(), left: wakeup.NewSignal(),
		absent:  map[string]time.Time{},
		drivers: map[string][]*driver{}, claims: map[types.NamespacedName]*claim{}, waiting: map[types.UID]bool{},
		gone: map[types.UID]bool{},
	}
	saved, err := m.file.Load()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.log.Error("Failed to read the checkpoint of prepared resource claims; claims of pods that have ended meanwhile "+
			"stay prepared, and a container that has claims does not restart before its pod is deleted",
			"file", o.Checkpoint, "err", err)
	}
	m.restore(saved)
	return m
}

// Disable records why no driver can register on this node.
func (m *Manager) Disable(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disabled = err
}

// remedy is what lets a driver register that is not registered.
func (m *Manager) remedy() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.disabled != nil {
		return "drivers cannot register: " + m.disabled.Error()
	}
	return "install it, or wait until it has started"
}

// Changed receives after a driver has registered or connected.
func (m *Manager) Changed() <-chan struct{} { return m.changed.C() }

// TakeChanged returns the pods whose claims could not be prepared.
func (m *Manager) TakeChanged() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.waiting))
}

// setWaiting records whether a pod waits for its claims.
func (m *Manager) setWaiting(uid types.UID, waits bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if waits {
		m.waiting[uid] = true
	} else {
		delete(m.waiting, uid)
	}
}

// Devices returns the devices that a container has from claims. The error reports that one of them is
// not prepared.
func (m *Manager) Devices(pod *v1.Pod, c *v1.Container) (list []internaldevice.Prepared, err error) {
	desired, err := internaldevice.ContainerClaims(pod, c)
	if err != nil || len(desired) == 0 {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range desired {
		known := m.claims[types.NamespacedName{Namespace: pod.Namespace, Name: w.Name}]
		if known == nil || !known.pods[pod.UID] {
			return nil, notPrepared(pod.Namespace, w.Name)
		}
		for _, d := range known.devices {
			if w.Request == "" || len(d.Requests) == 0 || slices.Contains(d.Requests, w.Request) {
				list = append(list, internaldevice.Prepared{
					Namespace: pod.Namespace, Claim: w.Name, Driver: d.Driver, Pool: d.Pool, Device: d.Device, Share: d.Share,
					CDI: d.CDI,
				})
			}
		}
	}
	return list, nil
}

// CDIDevices returns the names of the CDI devices that a container has from claims, each once.
func (m *Manager) CDIDevices(pod *v1.Pod, c *v1.Container) (names []string, err error) {
	devices, err := m.Devices(pod, c)
	for _, d := range devices {
		for _, name := range d.CDI {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, err
}

// InUse returns the numbers of claims that drivers have prepared, also before the daemon started: by driver, and of
// all.
func (m *Manager) InUse() (drivers map[string]int, all int) {
	drivers = map[string]int{}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.claims {
		if !c.prepared && len(c.devices) == 0 {
			continue
		}
		all++
		for _, name := range c.drivers {
			drivers[name]++
		}
	}
	return drivers, all
}
