package cgroup

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/cgroupvalues"
)

// filesV1 holds the files that the kernel creates in a new cgroup, by
// controller, and filesV2 those of the unified hierarchy.
var (
	filesV1 = map[string]map[string]string{
		controllerCPU:     {"cpu.shares": "1024", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "-1"},
		controllerMemory:  {"memory.limit_in_bytes": "9223372036854771712"},
		controllerPids:    {"pids.max": "max"},
		controllerHugeTLB: {"hugetlb.2MB.limit_in_bytes": "9223372036854771712"},
	}
	filesV2 = map[string]map[string]string{
		controllerCPU:     {"cpu.weight": "100", "cpu.max": "max 100000"},
		controllerMemory:  {"memory.max": "max"},
		controllerPids:    {"pids.max": "max"},
		controllerHugeTLB: {"hugetlb.2MB.max": "max"},
	}
)

// machine is a cgroup tree in a directory, with a simulation of the kernel.
type machine struct {
	t    *testing.T
	root string
	h    *hierarchies
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// newMachine returns a machine with the given controllers, in version 2, or in
// version 1 with a hierarchy for each and an empty unified one in addition.
func newMachine(t *testing.T, v2 bool, controllers ...string) *machine {
	t.Helper()
	m := &machine{t: t, root: t.TempDir()}
	m.h = &hierarchies{byController: map[string]string{}, mkdir: m.mkdir, rmdir: m.rmdir}
	if v2 {
		m.h.unified, m.h.all = m.root, []string{m.root}
		writeFiles(t, m.root, map[string]string{"cgroup.controllers": strings.Join(controllers, " "),
			"cgroup.subtree_control": "",
			"cgroup.procs":           "1"})
		return m
	}
	for _, c := range append(slices.Clone(controllers), "freezer", "unified") {
		dir := filepath.Join(m.root, c)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		m.h.all = append(m.h.all, dir)
		if slices.Contains(controllers, c) {
			m.h.byController[c] = dir
		}
	}
	return m
}

func (m *machine) mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	writeFiles(m.t, dir, map[string]string{"cgroup.procs": ""})
	if !m.h.v2() {
		for c, root := range m.h.byController {
			if strings.HasPrefix(dir, root+"/") {
				writeFiles(m.t, dir, filesV1[c])
			}
		}
		return nil
	}
	// The kernel reads "+cpu" and shows "cpu"; the tree keeps the written
	// text.
	through := m.read(filepath.Dir(dir), "cgroup.subtree_control")
	var has []string
	for _, c := range limitingControllers {
		if strings.Contains(through, c) {
			has = append(has, c)
			writeFiles(m.t, dir, filesV2[c])
		}
	}
	writeFiles(m.t, dir, map[string]string{"cgroup.controllers": strings.Join(has, " "), "cgroup.subtree_control": ""})
	return nil
}

// rmdir removes a cgroup that has no children and no processes.
func (m *machine) rmdir(dir string) error {
	if strings.TrimSpace(m.read(dir, "cgroup.procs")) != "" {
		return os.ErrPermission
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}

func (m *machine) read(dir, file string) string {
	data, _ := os.ReadFile(filepath.Join(dir, file))
	return string(data)
}

// value returns the content of a cgroup's file; file is CONTROLLER/… in version
// 1.
func (m *machine) value(controller, path, file string) string {
	return m.read(m.h.directory(controller, path), file)
}

// left returns the directories of a pod, wherever they are.
func (m *machine) left(uid types.UID) []string {
	var found []string
	_ = filepath.WalkDir(m.root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(d.Name(), strings.ReplaceAll(string(uid), "-", "_")) ||
			strings.Contains(d.Name(), string(uid)) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

func (m *machine) cgroups(change ...func(*Options)) *Cgroups {
	o := Options{
		Driver:   func(context.Context) (Driver, error) { return Cgroupfs, nil },
		Settings: cgroupvalues.Settings{V2: m.h.v2(), PageSizes: []string{"2Mi"}},
		Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"),
			v1.ResourceMemory: resource.MustParse("8Gi"), ResourcePID: resource.MustParse("1000")},
		EnforceAllocatable: true,
		hierarchies:        m.h,
		kill:               func(int) error { m.t.Error("something was killed"); return nil },
	}
	for _, c := range change {
		c(&o)
	}
	return New(o)
}

// pod returns a pod with one container for each pair of request and limit, "cpu
// memory" with - for none.
func pod(uid types.UID, containers ...[2]string) *v1.Pod {
	p := &v1.Pod{}
	p.UID = uid
	for i, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers,
			v1.Container{Name: string(rune('a' + i)), Resources: requirements(c[0], c[1])})
	}
	return p
}

func requirements(request, limit string) v1.ResourceRequirements {
	list := func(text string) v1.ResourceList {
		l := v1.ResourceList{}
		for i, value := range strings.Fields(text) {
			if value != "-" {
				l[[]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}[i]] = resource.MustParse(value)
			}
		}
		return l
	}
	return v1.ResourceRequirements{Requests: list(request), Limits: list(limit)}
}
