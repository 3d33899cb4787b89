package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// noLimit is the value of a removed limit. A limit of 0 is left unchanged.
const noLimit = -1

// The files of memory limits.
const (
	memoryMax   = "memory.max"
	memoryMaxV1 = "memory.limit_in_bytes"
)

// limits are the values of one cgroup.
type limits struct {
	// shares is cpu.shares.
	shares int64
	// quota and period are in microseconds.
	quota, period int64
	// memory is in bytes.
	memory int64
	pids   int64
	// memoryMin and memoryLow protect memory from reclaim, in bytes (v2 only); noLimit removes
	// the protection.
	memoryMin, memoryLow int64
	// hugePages are in bytes, by page size as in the kernel's file names; here 0 is
	// a limit.
	hugePages map[string]int64
}

// setting is the value of one file.
type setting struct{ controller, file, value string }

// settings returns the files to write, for v2 or v1, in order.
func (l limits) settings(v2 bool) []setting {
	if v2 {
		return l.settingsV2()
	}
	var list []setting
	add := func(controller, file string, value int64) {
		list = append(list, setting{controller, file, strconv.FormatInt(value, 10)})
	}
	if l.shares != 0 {
		add(controllerCPU, "cpu.shares", l.shares)
	}
	if l.quota != 0 {
		if l.period != 0 {
			add(controllerCPU, "cpu.cfs_period_us", l.period)
		}
		add(controllerCPU, "cpu.cfs_quota_us", l.quota)
	}
	if l.memory != 0 {
		add(controllerMemory, memoryMaxV1, l.memory)
	}
	if l.pids != 0 {
		list = append(list, setting{controllerPids, "pids.max", orMax(l.pids)})
	}
	for _, size := range sorted(l.hugePages) {
		add(controllerHugeTLB, "hugetlb."+size+".limit_in_bytes", l.hugePages[size])
	}
	return list
}

func (l limits) settingsV2() []setting {
	var list []setting
	if l.shares != 0 {
		list = append(list, setting{controllerCPU, "cpu.weight", strconv.FormatInt(weight(l.shares), 10)})
	}
	if l.quota != 0 {
		list = append(list, setting{controllerCPU, "cpu.max", orMax(l.quota) + " " + strconv.FormatInt(l.period, 10)})
	}
	if l.memory != 0 {
		list = append(list, setting{controllerMemory, memoryMax, orMax(l.memory)})
	}
	for _, p := range []struct {
		file  string
		bytes int64
	}{{"memory.min", l.memoryMin}, {"memory.low", l.memoryLow}} {
		if p.bytes != 0 {
			list = append(list, setting{controllerMemory, p.file, strconv.FormatInt(max(p.bytes, 0), 10)})
		}
	}
	if l.pids != 0 {
		list = append(list, setting{controllerPids, "pids.max", orMax(l.pids)})
	}
	for _, size := range sorted(l.hugePages) {
		list = append(list, setting{controllerHugeTLB, "hugetlb." + size + ".max", strconv.FormatInt(l.hugePages[size], 10)})
	}
	return list
}

// weight converts cpu.shares to cpu.weight as the kubelet and the runtimes do: 2
// to 262144 become 1 to 10000.
func weight(shares int64) int64 { return 1 + (shares-2)*9999/262142 }

func orMax(n int64) string {
	if n == noLimit {
		return "max"
	}
	return strconv.FormatInt(n, 10)
}

func sorted(m map[string]int64) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// write sets the values of an existing cgroup. It skips values that are already
// set: on v1, writing a memory limit reclaims memory. It also skips values of
// missing controllers; checkControllers has rejected pods that need them.
func (h *hierarchies) write(path string, l limits) error {
	var errs []error
	for _, s := range l.settings(h.v2()) {
		dir := h.directory(s.controller, path)
		if dir == "" {
			continue
		}
		file := filepath.Join(dir, s.file)
		if s.file == memoryMax || s.file == memoryMaxV1 {
			if err := h.checkInUse(dir, file, l.memory); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		err := writeValue(file, s.value)
		if err != nil && errors.Is(err, fs.ErrNotExist) &&
			(s.value == "-1" || strings.HasPrefix(s.value, "max") || s.value == "0") {
			continue // the controller is missing, and no limit was requested
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("failed to set %s to %s: %w", file, s.value, err))
		}
	}
	return errors.Join(errs...)
}

func writeValue(file, value string) error {
	if now, err := os.ReadFile(file); err == nil && sameValue(strings.TrimSpace(string(now)), value) {
		return nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// sameValue compares values as the kernel shows them: it rounds bytes down to
// pages, and shows no limit as its largest number.
func sameValue(now, want string) bool {
	if now == want {
		return true
	}
	n, err := strconv.ParseInt(now, 10, 64)
	if err != nil {
		return false
	}
	w, err := strconv.ParseInt(want, 10, 64)
	page := int64(os.Getpagesize())
	const unlimited = 1 << 62
	return err == nil && (w == noLimit && n >= unlimited || w > page && n == w/page*page && n != 0)
}

// usageFiles are the files of memory usage and the fields of reclaimable memory,
// for v1 and v2.
var usageFiles = map[bool]struct{ usage, inactive string }{
	false: {"memory.usage_in_bytes", "total_inactive_file"},
	true:  {"memory.current", "inactive_file"},
}

// checkInUse returns an error for a limit below the present usage: on v2, setting
// it would kill processes of the pod.
func (h *hierarchies) checkInUse(dir, file string, limit int64) error {
	if limit == noLimit {
		return nil
	}
	now, err := os.ReadFile(file)
	if err != nil {
		return nil // writing the limit reports it
	}
	before, err := strconv.ParseInt(strings.TrimSpace(string(now)), 10, 64)
	if err == nil && before <= limit {
		return nil
	}
	files := usageFiles[h.v2()]
	text, err := os.ReadFile(filepath.Join(dir, files.usage))
	if err != nil {
		return nil
	}
	used, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return nil
	}
	stat, _ := os.ReadFile(filepath.Join(dir, "memory.stat"))
	for line := range strings.Lines(string(stat)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && name == files.inactive {
			used -= n
		}
	}
	if used >= limit {
		return fmt.Errorf("failed to set %s to %d: %d bytes are in use", file, limit, used)
	}
	return nil
}
