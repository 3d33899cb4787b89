package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/cgroupvalues"
)

// ReservedCgroup is a cgroup of the host that is limited to what is reserved for it. Only these
// of its values are set; the cgroup belongs to others.
type ReservedCgroup struct {
	// Field is the setting that names it, for messages.
	Field string
	// Path is its path in each hierarchy, such as /system.slice.
	Path string
	// Resources are what is reserved for it.
	Resources v1.ResourceList
	// Compressible leaves out everything but CPU shares.
	Compressible bool
}

// limits returns the values of the cgroup, as at the kubelet.
func (r *ReservedCgroup) limits(memoryQoS bool) limits {
	var l limits
	if cpu, ok := r.Resources[v1.ResourceCPU]; ok {
		l.shares = cgroupvalues.CPUShares(cpu.MilliValue())
	}
	if r.Compressible {
		return l
	}
	memory, pids := r.Resources[v1.ResourceMemory], r.Resources[ResourcePID]
	l.memory, l.pids = memory.Value(), pids.Value()
	if memoryQoS {
		l.memoryMin = l.memory
	}
	for name, quantity := range r.Resources {
		if size, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix); ok {
			if l.hugePages == nil {
				l.hugePages = map[string]int64{}
			}
			l.hugePages[kernelSize(size)] = quantity.Value()
		}
	}
	return l
}

// Check returns an error if the cgroup does not exist on this host, or if it contains the pods,
// whose cgroup is root, or is one of theirs.
func (r *ReservedCgroup) Check(reader *Reader, root string) error {
	at := r.path()
	for _, pods := range RootPaths(root) {
		if at == "/" || strings.HasPrefix(pods+"/", at+"/") || strings.HasPrefix(at+"/", pods+"/") {
			return fmt.Errorf("%s contains the pods, or is one of their cgroups; name a cgroup of the system, such as "+
				"/system.slice", r.Path)
		}
	}
	for _, s := range r.limits(false).settings(reader.h.v2()) {
		dir := reader.h.directory(s.controller, at)
		if dir == "" {
			return fmt.Errorf("%s cannot be limited on this node: it has no cgroup controller %s; enable it, or reserve "+
				"nothing of it", r.Path, s.controller)
		}
		if _, err := os.Stat(filepath.Join(dir, s.file)); err != nil {
			return fmt.Errorf("%s cannot be limited on this node: there is no %s; create the cgroup before podstead starts, "+
				"or remove the field", r.Path, filepath.Join(dir, s.file))
		}
	}
	return nil
}

// path returns the path of the cgroup, of a nested slice also from its name alone.
func (r *ReservedCgroup) path() string {
	clean := path.Clean("/" + r.Path)
	if path.Dir(clean) == "/" && strings.HasSuffix(clean, sliceSuffix) {
		return cgroupPath(clean)
	}
	return clean
}

// reservedInterval is how often the values of reserved cgroups are checked.
const reservedInterval = time.Minute

// EnforceReserved limits the cgroups to what is reserved for them, until ctx ends: values that the
// kernel refuses are tried again, and those that others reset are set again. reader is nil for
// that of this process. It returns at once for an empty list.
func (c *Cgroups) EnforceReserved(ctx context.Context, list []ReservedCgroup) error {
	ticker := time.NewTicker(reservedInterval)
	defer ticker.Stop()
	fault := ""
	for len(list) > 0 {
		err := c.enforceReserved(ctx, list)
		switch text := fmt.Sprint(err); {
		case err == nil && fault != "":
			c.log.Info("Limits of reserved cgroups set")
			fault = ""
		case err != nil && text != fault && ctx.Err() == nil:
			c.log.Warn("Failed to limit the reserved cgroups, retrying", "err", err)
			fault = text
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}

func (c *Cgroups) enforceReserved(ctx context.Context, list []ReservedCgroup) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.find(); err != nil {
		return err
	}
	_, booted := os.Stat(systemdDirectory)
	var errs []error
	for i := range list {
		r := &list[i]
		l := r.limits(c.Settings.V2 && c.Settings.MemoryQoS != nil)
		if unit := path.Base(r.path()); strings.HasSuffix(unit, sliceSuffix) && (booted == nil || c.units != nil) &&
			!c.hasValues(r.path(), l) {
			// systemd resets values of its slices that it does not know.
			callCtx, cancel := context.WithTimeout(ctx, unitTimeout)
			err := c.systemd().Set(callCtx, unit, l.properties(c.hierarchies.v2()))
			cancel()
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: failed to set the properties of %s: %w", r.Field, unit, err))
			}
		}
		if err := c.hierarchies.write(r.path(), l); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.Field, err))
		}
	}
	return errors.Join(errs...)
}

// hasValues reports whether a cgroup has these values.
func (c *Cgroups) hasValues(path string, l limits) bool {
	return !slices.ContainsFunc(l.settings(c.hierarchies.v2()), func(s setting) bool {
		data, err := os.ReadFile(filepath.Join(c.hierarchies.directory(s.controller, path), s.file))
		return err != nil || !sameValue(strings.TrimSpace(string(data)), s.value)
	})
}
