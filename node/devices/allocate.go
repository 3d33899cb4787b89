package devices

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/device"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// Allocate gives a pod, of which nothing runs, the devices that its containers request, and saves
// that. What the pod had before is given back; it gets the same devices if they are free. The
// error is a *device.Unavailable if the pod has to wait, and else names the plugin that failed.
func (m *Manager) Allocate(ctx context.Context, pod *v1.Pod) error {
	list := steps(pod)
	if len(list) == 0 {
		return nil
	}
	p, plugins, u := m.reserve(pod, list)
	if u != nil {
		return u
	}
	if p == nil {
		return nil
	}
	err := m.askPlugins(ctx, pod, p, list, plugins)
	if err == nil {
		m.mu.Lock()
		p.responded = true
		m.mu.Unlock()
		err = m.save()
	}
	m.mu.Lock()
	if err == nil {
		p.tentative = false
	} else if m.pods[pod.UID] == p {
		delete(m.pods, pod.UID)
	}
	m.mu.Unlock()
	if err != nil {
		m.saveLater()
		m.changed.Notify()
		return err
	}
	m.log.Info("Devices allocated", "pod", podinfo.FullName(pod), "uid", pod.UID, "devices", p.text())
	return nil
}

// text returns the devices of a pod for the log.
func (p *podDevices) text() (list []string) {
	for container, resources := range p.containers {
		for name, a := range resources {
			list = append(list, fmt.Sprintf("%s: %s %v", container, name, a.ids))
		}
	}
	slices.Sort(list)
	return list
}

// reserve chooses the devices of a pod, so that no other pod can get them while the plugins are
// asked. The pod is nil if it needs none.
func (m *Manager) reserve(pod *v1.Pod, list []step) (*podDevices, map[v1.ResourceName]*plugin, *device.Unavailable) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.check(pod); u != nil {
		return nil, nil, u
	}
	known := m.known(pod)
	if len(known) == 0 {
		return nil, nil, nil
	}
	w := m.newWaiter(pod, known, pod.UID)
	p := &podDevices{name: podinfo.FullName(pod), tentative: true,
		containers: map[string]map[v1.ResourceName]*allocation{}}
	plugins, pools := map[v1.ResourceName]*plugin{}, map[v1.ResourceName]*pool{}
	for _, s := range list {
		if known[s.resource] == 0 {
			continue
		}
		if pools[s.resource] == nil {
			free := m.free(s.resource, pod.UID)
			ahead, _, _ := m.ahead(w, s.resource, "")
			pools[s.resource] = &pool{
				free: free, reusable: idSet{}, before: m.had(pod.UID, s.resource),
				unreserved: m.unreserved(s.resource, free, ahead, pod.UID),
			}
			plugins[s.resource] = m.resources[s.resource].plugin
		}
		pools[s.resource].order = func(ids []string) []string { ids, _ = m.nearest(pod.UID, s, ids); return ids }
		ids := slices.Clone(pools[s.resource].choose(s.count))
		pools[s.resource].assign(ids, endsEarly(pod, s.container))
		p.set(s.container, s.resource, &allocation{ids: ids})
	}
	m.pods[pod.UID] = p
	delete(m.waiting, pod.UID)
	return p, plugins, nil
}

// had returns the devices of a resource that a pod has. mu is held.
func (m *Manager) had(uid types.UID, name v1.ResourceName) idSet {
	if p := m.pods[uid]; p != nil {
		return p.ids(name)
	}
	return idSet{}
}

// askPlugins lets the plugins choose the devices, if they want to, and prepare them.
func (m *Manager) askPlugins(ctx context.Context, pod *v1.Pod, p *podDevices, list []step,
	plugins map[v1.ResourceName]*plugin) error {
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		if plugins[name] == nil || !plugins[name].prefers {
			continue
		}
		if err := m.applyPreferences(ctx, pod, p, name, list, plugins[name]); err != nil {
			return err
		}
	}
	for _, s := range list {
		plug, requested := plugins[s.resource]
		if !requested {
			continue
		}
		m.mu.Lock()
		ids := slices.Clone(p.containers[s.container][s.resource].ids)
		r := m.resources[s.resource]
		m.mu.Unlock()
		var assigned device.Assignment
		var err error
		if plug == nil {
			assigned, err = m.assignLocal(r, s.resource, ids)
		} else {
			assigned, err = plug.allocate(ctx, ids, m.options.Timeouts.Allocate)
		}
		if err != nil {
			return fmt.Errorf("failed to allocate devices of %s for container %q: %w", s.resource, s.container, err)
		}
		m.mu.Lock()
		a := p.containers[s.container][s.resource]
		a.assigned, a.preStart = assigned, plug != nil && plug.preStartRequired
		m.mu.Unlock()
	}
	return nil
}

// applyPreferences replaces the devices that were chosen for a pod by those that the plugin prefers.
// Its failure only costs the preference, as at the kubelet.
func (m *Manager) applyPreferences(ctx context.Context, pod *v1.Pod, p *podDevices, name v1.ResourceName, list []step,
	plug *plugin) error {
	m.mu.Lock()
	// What the pod has now it got from this choice, so that it is available.
	shared := &pool{free: m.free(name, pod.UID), reusable: idSet{}}
	m.mu.Unlock()
	for _, s := range list {
		if s.resource != name {
			continue
		}
		available := slices.Sorted(maps.Keys(union(shared.free, shared.reusable)))
		must := slices.Sorted(maps.Keys(shared.reusable))
		must = must[:min(len(must), s.count)]
		m.mu.Lock()
		shared.order = func(ids []string) []string { ids, _ = m.nearest(pod.UID, s, ids); return ids }
		if ordered, near := m.nearest(pod.UID, s, available); near >= s.count && len(must) == 0 {
			// The plugin chooses among those that are near the container.
			available = slices.Sorted(slices.Values(ordered[:near]))
		}
		m.mu.Unlock()
		ids, err := plug.preferred(ctx, available, must, s.count, m.options.Timeouts.Preferred)
		if err != nil {
			m.log.Warn("Device plugin failed to choose devices, choosing any", "resource", name, "pod", podinfo.FullName(pod),
				"err", err)
			ids = nil
		}
		m.mu.Lock()
		// Others may have got devices, or have given some back, since it was asked.
		shared.free = m.free(name, pod.UID)
		for _, before := range list {
			if before == s {
				break
			}
			if before.resource == name {
				for _, id := range p.containers[before.container][name].ids {
					delete(shared.free, id)
				}
			}
		}
		if !shared.valid(ids, s.count) {
			ids = slices.Clone(shared.choose(s.count))
		}
		if len(ids) < s.count {
			m.mu.Unlock()
			return fmt.Errorf("devices of %s became unhealthy while they were allocated", name)
		}
		p.containers[s.container][name].ids = ids
		shared.assign(ids, endsEarly(pod, s.container))
		m.mu.Unlock()
	}
	return nil
}

func union(a, b idSet) idSet {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// Container returns what the devices of a container add to it, right before an instance of it is
// created, after the plugin has prepared them if it wants to. The zero value is returned for a
// container that requests none.
func (m *Manager) Container(ctx context.Context, pod *v1.Pod, c *v1.Container) (device.Assignment, error) {
	requests := device.Requests(pod, c)
	if len(requests) == 0 {
		return device.Assignment{}, nil
	}
	var all device.Assignment
	free := podinfo.PolicyOf(pod).UnknownResourcesAreFree
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		m.mu.Lock()
		var a *allocation
		if p := m.pods[pod.UID]; p != nil {
			a = p.containers[c.Name][name]
		}
		r := m.resources[name]
		var plug *plugin
		if r != nil {
			plug = r.plugin
		}
		local := a != nil && r.isLocal(a)
		m.mu.Unlock()
		switch {
		case a == nil && free && r == nil:
			continue
		case a == nil:
			return device.Assignment{}, fmt.Errorf("container %q requests %s, and it is not known which devices it has; "+
				"restart the pod: podstead restart %s -n %s",
				c.Name, name, pod.Name, pod.Namespace)
		}
		if local {
			assigned, err := m.assignLocal(r, name, a.ids)
			if err != nil {
				return device.Assignment{}, fmt.Errorf("container %q: %s: %w", c.Name, name, err)
			}
			all.Add(assigned)
			continue
		}
		if a.preStart {
			if plug == nil {
				return device.Assignment{}, fmt.Errorf("the device plugin of %s, which prepares its devices before each start of "+
					"a container, is not connected", name)
			}
			if err := plug.prepare(ctx, a.ids, m.options.Timeouts.PreStart); err != nil {
				return device.Assignment{}, fmt.Errorf("failed to prepare devices of %s for container %q: %w", name, c.Name, err)
			}
		}
		all.Add(a.assigned)
	}
	return all, nil
}
