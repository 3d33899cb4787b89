package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/cgroupvalues"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// DefaultRoot is the root's path. It is never the kubelet's, which ends every
// process below its own that it does not know.
const DefaultRoot = "/podstead"

// rootRetry is when values that the kernel refused for the root are tried
// again, as with the kubelet.
const rootRetryInterval = time.Minute

// Options are what a Cgroups is made of.
type Options struct {
	// Root is the path of the root below each hierarchy's; empty stands for
	// DefaultRoot.
	Root string
	// Driver tells how the runtime makes cgroups. It is asked once it is
	// needed, until it answers.
	Driver func(ctx context.Context) (Driver, error)
	// Settings are the machine's; see DetectSettings.
	Settings cgroupvalues.Settings
	// Allocatable is what pods may have together.
	Allocatable v1.ResourceList
	// EnforceAllocatable makes it the root's limit; else the root only has a
	// share of the CPU.
	EnforceAllocatable bool
	// PodPids is how many processes a pod may have; 0 is no limit.
	PodPids int64
	// Log may be nil.
	Log *slog.Logger

	// What follows stands for the machine in tests.
	hierarchies *hierarchies
	units       units
	kill        func(pid int) error
}

// Cgroups are those of all pods. Its methods may be called at the same time.
type Cgroups struct {
	Options
	log  *slog.Logger
	root cgroupName

	mu     sync.Mutex
	driver Driver
	// controllers are those that the root has, nil before it was made.
	controllers []string
	// rootFault is why the root's values could not be set at rootTried.
	rootErr     string
	rootTriedAt time.Time
	// denied is why no cgroup can be made here, empty if some can.
	unavailable string
	// applied are the values that a pod's cgroup was given, as text.
	applied map[types.UID]string
	// shared are the requests of cpu in thousandths of the Burstable pods,
	// which the tier's share is the sum of.
	burstableRequests map[types.UID]int64
	burstableShares   int64
}

// New makes a Cgroups. It touches nothing.
func New(o Options) *Cgroups {
	c := &Cgroups{Options: o, log: o.Log, burstableRequests: map[types.UID]int64{}, applied: map[types.UID]string{}}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.Root == "" {
		c.Root = DefaultRoot
	}
	c.root = rootName(c.Root)
	if c.kill == nil {
		c.kill = func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
	}
	return c
}

// Ensure makes the cgroup of a pod, or brings its values up to the pod's, and
// returns it as the runtime takes it for a sandbox. parent is what a sandbox
// that goes on was made in, empty if there is none: that cgroup, then, has the
// values. Where this machine lets nobody make cgroups, the result is empty, and
// an error only for a pod whose limits would be dropped by that.
func (c *Cgroups) Ensure(ctx context.Context, pod *v1.Pod, parent string) (string, error) {
	if err := checkUID(pod.UID); err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.prepare(ctx); err != nil {
		return "", err
	}
	if c.unavailable != "" {
		return "", c.checkWithoutCgroup(pod)
	}
	if err := c.checkControllers(pod); err != nil {
		return "", err
	}
	place := podCgroup(c.root, pod)
	wanted := c.driver.parent(place)
	l := c.podLimits(pod)
	if parent != "" && parent != wanted {
		// It was made under another root or driver, and stays there.
		if !isPodCgroup(parent, pod.UID) {
			return "", fmt.Errorf("sandbox is in cgroup %q, which does not belong to the pod", parent)
		}
		return parent, c.hierarchies.write(cgroupPath(parent), l)
	}
	// A pod is looked at once a minute and more, and mostly nothing is to do.
	values := fmt.Sprint(wanted, l)
	if c.applied[pod.UID] == values && isDirectory(c.hierarchies.directories(c.driver.path(place))[0]) {
		return wanted, nil
	}
	delete(c.applied, pod.UID)
	if err := c.create(ctx, place, l); err != nil {
		return "", err
	}
	c.applied[pod.UID] = values
	if podinfo.QOSClass(pod) == v1.PodQOSBurstable {
		c.burstableRequests[pod.UID] = amountsWithOverhead(pod).CPURequest
	} else {
		delete(c.burstableRequests, pod.UID)
	}
	return wanted, c.setBurstableShares(ctx)
}

// Fits is an error for a pod that requests more than all pods may have.
func (c *Cgroups) Fits(pod *v1.Pod) error {
	a := amountsWithOverhead(pod)
	cpu, memory := c.Allocatable[v1.ResourceCPU], c.Allocatable[v1.ResourceMemory]
	switch {
	case !cpu.IsZero() && a.CPURequest > cpu.MilliValue():
		return fmt.Errorf("the pod requests %dm of cpu, but only %dm are allocatable on this node", a.CPURequest, cpu.MilliValue())
	case !memory.IsZero() && a.MemoryRequest > memory.Value():
		return fmt.Errorf("the pod requests %d bytes of memory, but only %d are allocatable on this node", a.MemoryRequest, memory.Value())
	}
	return nil
}

// Destroy ends what is left in the cgroup of a pod that has ended, and removes
// it. parent is what its last sandbox was made in, empty if that is not known.
// A pod that had none is done at once.
func (c *Cgroups) Destroy(ctx context.Context, uid types.UID, parent string) error {
	if err := checkUID(uid); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.find(); err != nil {
		return nil // without hierarchies there is nothing to remove
	}
	delete(c.applied, uid)
	// The pod's class may not be known any more, nor the driver.
	at := map[string]string{}
	for _, place := range possibleNames(c.root, uid) {
		at[Cgroupfs.path(place)] = ""
		at[Systemd.path(place)] = slice(place)
	}
	if isPodCgroup(parent, uid) {
		at[cgroupPath(parent)] = ""
		if strings.HasSuffix(parent, sliceSuffix) {
			at[cgroupPath(parent)] = parent
		}
	}
	for _, path := range slices.Sorted(maps.Keys(at)) {
		if err := c.destroy(ctx, path, at[path]); err != nil {
			return err
		}
	}
	if _, ok := c.burstableRequests[uid]; !ok {
		return nil
	}
	delete(c.burstableRequests, uid)
	return c.setBurstableShares(ctx)
}

// Pods are those that have a cgroup below the root.
func (c *Cgroups) Pods() []types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.find() != nil {
		return nil
	}
	found := map[types.UID]bool{}
	for _, tier := range []cgroupName{c.root, c.root.child(tierBurstable), c.root.child(tierBestEffort)} {
		for _, driver := range []Driver{Cgroupfs, Systemd} {
			for _, folder := range c.hierarchies.allDirectories(driver.path(tier)) {
				for _, uid := range driver.podsIn(folder, tier) {
					found[uid] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (c *Cgroups) destroy(ctx context.Context, path, unit string) error {
	if !slices.ContainsFunc(c.hierarchies.allDirectories(path), isDirectory) {
		return nil
	}
	if err := c.killAll(ctx, path); err != nil {
		return err
	}
	if unit != "" {
		if err := c.stopUnit(ctx, unit); err != nil {
			return err
		}
	}
	return c.hierarchies.remove(path)
}

// settle makes what all pods stand on: it learns the driver and makes the root
// and its tiers. It is done again at each pod until it has worked.
func (c *Cgroups) prepare(ctx context.Context) error {
	if c.driver == "" {
		driver, err := c.Driver(ctx)
		if err != nil {
			return fmt.Errorf("failed to get the runtime's cgroup driver: %w", err)
		}
		c.driver = driver
		c.log.Info("Using pod cgroups", "root", driver.path(c.root), "driver", driver)
	}
	if c.controllers != nil {
		c.limitRoot(ctx)
		return nil
	}
	err := c.makeRoot(ctx)
	was := c.unavailable
	c.unavailable = ""
	if err != nil && isUnavailable(err) {
		c.unavailable = err.Error()
		if was == "" {
			c.log.Warn("Cannot create cgroups, pods run in cgroups of the runtime", "err", err)
		}
		return nil
	}
	return err
}

func (c *Cgroups) makeRoot(ctx context.Context) error {
	if err := c.find(); err != nil {
		return err
	}
	if err := c.create(ctx, c.root, limits{}); err != nil {
		return err
	}
	c.limitRoot(ctx)
	if err := c.create(ctx, c.root.child(tierBestEffort), limits{shares: minShares}); err != nil {
		return err
	}
	if err := c.create(ctx, c.root.child(tierBurstable), limits{}); err != nil {
		return err
	}
	controllers, err := c.hierarchies.controllers(c.driver.path(c.root.child(tierBurstable)))
	if err != nil {
		return err
	}
	if lost := slices.DeleteFunc(slices.Clone(limitingControllers), func(l string) bool { return slices.Contains(controllers, l) }); len(lost) > 0 {
		c.log.Info("Cgroup controllers missing, pods with limits that need them are held", "missing", lost)
	}
	c.controllers = controllers
	if c.controllers == nil {
		c.controllers = []string{}
	}
	return nil
}

// limitRoot sets the root's values. Where the kernel refuses (more is in use
// than pods may have), pods go on, and it is tried again later.
func (c *Cgroups) limitRoot(ctx context.Context) {
	if c.controllers != nil && (c.rootErr == "" || time.Since(c.rootTriedAt) < rootRetryInterval) {
		return
	}
	c.rootTriedAt = time.Now()
	fault := ""
	if err := c.create(ctx, c.root, c.nodeLimits()); err != nil {
		fault = err.Error()
	}
	if fault != "" && fault != c.rootErr {
		c.log.Warn("Failed to set the limits of the root cgroup, retrying", "err", fault)
	}
	c.rootErr = fault
}

// find looks for the machine's hierarchies, once.
func (c *Cgroups) find() error {
	if c.hierarchies != nil {
		return nil
	}
	h, err := findHierarchies(mountinfoFile)
	if err != nil {
		return &unavailableError{err}
	}
	c.hierarchies = h
	return nil
}

// make makes one cgroup, or finds it, and sets its values.
func (c *Cgroups) create(ctx context.Context, place cgroupName, l limits) error {
	if c.driver == Systemd {
		if err := c.startUnit(ctx, slice(place), l); err != nil {
			return err
		}
	}
	path := c.driver.path(place)
	if err := c.hierarchies.create(path); err != nil {
		return err
	}
	return c.hierarchies.write(path, l)
}

// share gives the tier of Burstable pods what those request together.
func (c *Cgroups) setBurstableShares(ctx context.Context) error {
	milli := int64(0)
	for _, request := range c.burstableRequests {
		milli += request
	}
	shares := cgroupvalues.CPUShares(milli)
	if shares == c.burstableShares || c.controllers == nil {
		return nil
	}
	if err := c.create(ctx, c.root.child(tierBurstable), limits{shares: shares}); err != nil {
		return err
	}
	c.burstableShares = shares
	return nil
}

// lacking is an error for a pod with a limit that this machine cannot set.
func (c *Cgroups) checkControllers(pod *v1.Pod) error {
	var lost []string
	for controller, field := range c.requiredControllers(pod) {
		if !slices.Contains(c.controllers, controller) {
			lost = append(lost, fmt.Sprintf("%s needs the cgroup controller %s", field, controller))
		}
	}
	if len(lost) == 0 {
		return nil
	}
	slices.Sort(lost)
	return fmt.Errorf("%s, which this node does not have; enable it in the kernel, or remove the limit", strings.Join(lost, "; "))
}

// withoutOwn is an error for a pod that needs limits as a whole where it can
// have no cgroup of its own. Those of its containers the runtime sets.
func (c *Cgroups) checkWithoutCgroup(pod *v1.Pod) error {
	switch r := pod.Spec.Resources; {
	case r != nil && len(r.Limits) > 0:
		return fmt.Errorf("spec.resources.limits cannot be set: %s; make the cgroup file system writable, or remove the limits", c.unavailable)
	case c.PodPids > 0:
		return fmt.Errorf("podPidsLimit of this node cannot be set: %s; make the cgroup file system writable, or remove the setting", c.unavailable)
	}
	return nil
}

// deniedError says that no cgroup can be made here, whatever is tried.
type unavailableError struct{ error }

func (e *unavailableError) Unwrap() error { return e.error }

func isUnavailable(err error) bool {
	var denied *unavailableError
	return errors.As(err, &denied) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}
