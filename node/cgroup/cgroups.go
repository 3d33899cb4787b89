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

// DefaultRoot is the default path of the root. It must never be the kubelet's,
// which kills every unknown process below its own root.
const DefaultRoot = "/podstead"

// rootRetryInterval is when values of the root that the kernel refused are written
// again, as at the kubelet.
const rootRetryInterval = time.Minute

// Options configure a Cgroups.
type Options struct {
	// Root is the path of the root in each hierarchy; empty stands for DefaultRoot.
	Root string
	// Driver returns the runtime's cgroup driver. It is called when it is needed,
	// until it succeeds.
	Driver func(ctx context.Context) (Driver, error)
	// Settings are those of the machine; see DetectSettings.
	Settings cgroupvalues.Settings
	// Allocatable is what all pods may use together.
	Allocatable v1.ResourceList
	// EnforceAllocatable makes it the limit of the root; otherwise the root only
	// has CPU shares.
	EnforceAllocatable bool
	// PodPids limits the processes of a pod; 0 is no limit.
	PodPids int64
	// NoQuota reports that a pod has no CPU quota, because a container of it has exclusive
	// CPUs; nil stands for none.
	NoQuota func(uid types.UID) bool
	// Log may be nil.
	Log *slog.Logger

	// Tests replace the fields below.
	hierarchies *hierarchies
	units       units
	kill        func(pid int) error
}

// Cgroups manages the cgroups of all pods. Its methods may be called concurrently.
type Cgroups struct {
	Options
	log  *slog.Logger
	root cgroupName

	mu     sync.Mutex
	driver Driver
	// controllers are those of the root, nil before it was created.
	controllers []string
	// rootErr is why the root's values could not be set at rootTriedAt.
	rootErr     string
	rootTriedAt time.Time
	// unavailable is why no cgroup can be created here, empty if it can.
	unavailable string
	// applied are the values of each pod's cgroup, as text.
	applied map[types.UID]string
	// burstableRequests are the CPU requests of the Burstable pods in millicores,
	// whose sum gives burstableShares, the shares of their tier.
	burstableRequests map[types.UID]int64
	burstableShares   int64
	reserved          reservedMemory
}

// New creates a Cgroups. It touches nothing yet.
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

// Ensure creates the cgroup of a pod, or updates its values, and returns it as the
// cgroup_parent of a sandbox. parent is the cgroup_parent of a sandbox that is
// kept, empty if there is none: then that cgroup gets the values. Where cgroups
// cannot be created, the result is empty, and an error only for a pod whose limits
// would be dropped.
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
	desired := c.driver.parent(place)
	l := c.podLimits(pod)
	if parent != "" && parent != desired {
		// It was created under another root or driver, and stays there.
		if !isPodCgroup(parent, pod.UID) {
			return "", fmt.Errorf("sandbox is in cgroup %q, which does not belong to the pod", parent)
		}
		return parent, c.hierarchies.write(cgroupPath(parent), l)
	}
	// A pod is synced at least once a minute, mostly without a change.
	values := fmt.Sprint(desired, l)
	if c.applied[pod.UID] == values && isDirectory(c.hierarchies.directories(c.driver.path(place))[0]) {
		return desired, nil
	}
	delete(c.applied, pod.UID)
	if err := c.create(ctx, place, c.unprotected(place, l)); err != nil {
		return "", err
	}
	c.applied[pod.UID] = values
	if podinfo.QOSClass(pod) == v1.PodQOSBurstable {
		c.burstableRequests[pod.UID] = amountsWithOverhead(pod).CPURequest
	} else {
		delete(c.burstableRequests, pod.UID)
	}
	return desired, errors.Join(c.setBurstableShares(ctx), c.reserveMemory(ctx, pod))
}

// Fits returns an error for a pod that requests more than all pods may use.
func (c *Cgroups) Fits(pod *v1.Pod) error {
	a := amountsWithOverhead(pod)
	cpu, memory := c.Allocatable[v1.ResourceCPU], c.Allocatable[v1.ResourceMemory]
	switch {
	case !cpu.IsZero() && a.CPURequest > cpu.MilliValue():
		return fmt.Errorf("the pod requests %dm of cpu, but only %dm are allocatable on this node", a.CPURequest,
			cpu.MilliValue())
	case !memory.IsZero() && a.MemoryRequest > memory.Value():
		return fmt.Errorf("the pod requests %d bytes of memory, but only %d are allocatable on this node", a.MemoryRequest,
			memory.Value())
	}
	return nil
}

// Destroy kills what is left in the cgroup of a terminated pod and removes it.
// parent is the cgroup_parent of its last sandbox, empty if it is not known.
// Without a cgroup there is nothing to do.
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
	// The QoS class of the pod, or the driver, may no longer be known.
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
	unreserved := c.unreserveMemory(ctx, uid)
	if _, ok := c.burstableRequests[uid]; !ok {
		return unreserved
	}
	delete(c.burstableRequests, uid)
	return errors.Join(c.setBurstableShares(ctx), unreserved)
}

// Pods returns the pods that have a cgroup below the root.
func (c *Cgroups) Pods() []types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.find() != nil {
		return nil
	}
	found := map[types.UID]bool{}
	for _, tier := range []cgroupName{c.root, c.root.child(tierBurstable), c.root.child(tierBestEffort)} {
		for _, driver := range []Driver{Cgroupfs, Systemd} {
			for _, dir := range c.hierarchies.allDirectories(driver.path(tier)) {
				for _, uid := range driver.podsIn(dir, tier) {
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

// prepare gets the driver and creates the root and its tiers. It runs for each pod
// until it has succeeded.
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
	if lost := slices.DeleteFunc(slices.Clone(limitingControllers),
		func(l string) bool { return slices.Contains(controllers, l) }); len(lost) > 0 {
		c.log.Info("Cgroup controllers missing, pods with limits that need them are held", "missing", lost)
	}
	c.controllers = controllers
	if c.controllers == nil {
		c.controllers = []string{}
	}
	return nil
}

// limitRoot sets the values of the root. If the kernel refuses them (more is in
// use than pods may use), pods run, and it is tried again later.
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

// find finds the machine's hierarchies, once.
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

// create creates a cgroup if it does not exist, and sets its values.
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

// setBurstableShares sets the shares of the Burstable tier to what its pods
// request together.
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

// checkControllers returns an error for a pod with a limit that this machine
// cannot set.
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
	return fmt.Errorf("%s, which this node does not have; enable it in the kernel, or remove the limit",
		strings.Join(lost, "; "))
}

// checkWithoutCgroup returns an error for a pod that needs limits of its own where
// it cannot have a cgroup. The runtime sets those of its containers.
func (c *Cgroups) checkWithoutCgroup(pod *v1.Pod) error {
	switch r := pod.Spec.Resources; {
	case r != nil && len(r.Limits) > 0:
		return fmt.Errorf("spec.resources.limits cannot be set: %s; make the cgroup file system writable, or remove the "+
			"limits", c.unavailable)
	case c.PodPids > 0:
		return fmt.Errorf("podPidsLimit of this node cannot be set: %s; make the cgroup file system writable, or remove "+
			"the setting", c.unavailable)
	}
	return nil
}

// unavailableError reports that no cgroup can be created here.
type unavailableError struct{ error }

func (e *unavailableError) Unwrap() error { return e.error }

func isUnavailable(err error) bool {
	var denied *unavailableError
	return errors.As(err, &denied) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}
