package dra

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	internaldevice "github.com/podstead/podstead/internal/device"
)

func notPrepared(namespace, name string) error {
	return fmt.Errorf("ResourceClaim %s/%s is not prepared for the pod; delete the pod, so that its controller creates "+
		"another one", namespace, name)
}

// Prepare prepares the claims of a pod that is about to get a sandbox. It may take its time: it asks
// the API server for the claims that the pod has not had yet, and the drivers. The error names the
// claim or the driver. To repeat it is harmless.
func (m *Manager) Prepare(ctx context.Context, pod *v1.Pod) error {
	err := m.prepare(ctx, pod)
	m.setWaiting(pod.UID, err != nil)
	return err
}

func (m *Manager) prepare(ctx context.Context, pod *v1.Pod) error {
	claims, err := internaldevice.PodClaims(pod)
	if err != nil {
		return err
	}
	// Nothing is recorded before all claims are known to be usable: a pod whose driver was never
	// installed leaves nothing that only the driver could undo.
	var found []*claim
	for _, c := range claims {
		known, err := m.find(ctx, pod, c)
		if err != nil {
			return err
		}
		for _, name := range known.drivers {
			if m.driver(name) == nil {
				return fmt.Errorf("the DRA driver %s of ResourceClaim %s is not registered on this node; %s", name, c.Name,
					m.remedy())
			}
		}
		found = append(found, known)
	}
	for _, c := range found {
		if err := m.prepareClaim(ctx, pod.UID, c); err != nil {
			return err
		}
	}
	return nil
}

// find returns a claim that the pod may use. One that the pod has already needs no request to the API
// server: its allocation does not change while it is reserved for the pod.
func (m *Manager) find(ctx context.Context, pod *v1.Pod, desired internaldevice.PodClaim) (*claim, error) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: desired.Name}
	if known := m.claimOf(key, pod.UID); known != nil {
		return known, nil
	}
	if m.options.Claims == nil {
		return nil, fmt.Errorf("failed to get ResourceClaim %s: this node has not joined a cluster", desired.Name)
	}
	got, err := m.options.Claims.ResourceClaim(ctx, key.Namespace, key.Name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("failed to get ResourceClaim %s: %w", key.Name, err)
	case desired.Owned && got.Owner != pod.UID:
		return nil, fmt.Errorf("ResourceClaim %s was not created for the pod; delete the claim, so that the resourceclaim "+
			"controller creates the pod's", key.Name)
	case !got.Allocated:
		return nil, fmt.Errorf("ResourceClaim %s is not allocated; the cluster's scheduler does that when it schedules the "+
			"pod", key.Name)
	case !slices.Contains(got.Pods, pod.UID):
		return nil, fmt.Errorf("ResourceClaim %s is not reserved for the pod; the cluster's scheduler does that when it "+
			"schedules the pod", key.Name)
	}
	return newClaim(key, got.UID, got.Drivers), nil
}

// claimOf returns a claim that a pod has already, nil if it does not.
func (m *Manager) claimOf(key types.NamespacedName, uid types.UID) *claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.claims[key]; known != nil && known.pods[uid] {
		return known
	}
	return nil
}

// reference adds a pod to the users of a claim, and returns the claim of the state with its lock held.
func (m *Manager) reference(ctx context.Context, uid types.UID, desired *claim) (*claim, error) {
	for {
		m.mu.Lock()
		known := m.claims[desired.key]
		if known == nil {
			known = newClaim(desired.key, desired.uid, desired.drivers)
			m.claims[known.key] = known
		}
		m.mu.Unlock()
		if known.uid != desired.uid {
			return nil, fmt.Errorf("another ResourceClaim %s with the UID %s is still prepared, for a pod that has not ended; "+
				"the pod waits for its end", known.key.Name, known.uid)
		}
		if err := known.lock(ctx); err != nil {
			m.dropUnused(known)
			return nil, err
		}
		m.mu.Lock()
		removed := known.removed
		if !removed {
			known.pods[uid] = true
		}
		m.mu.Unlock()
		if !removed {
			return known, nil
		}
		known.unlock()
	}
}

// dropUnused removes a claim that no pod uses yet. A pod that still waits for it finds it removed.
func (m *Manager) dropUnused(c *claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(c.pods) == 0 && m.claims[c.key] == c {
		delete(m.claims, c.key)
		c.removed = true
	}
}

// prepareClaim lets the drivers of a claim prepare it, if they have not done so since the daemon
// started.
func (m *Manager) prepareClaim(ctx context.Context, uid types.UID, desired *claim) error {
	c, err := m.reference(ctx, uid, desired)
	if err != nil {
		return err
	}
	defer c.unlock()
	// Before a driver hears of it: otherwise nothing would undo it after the daemon was killed.
	if err := m.save(); err != nil {
		return err
	}
	m.mu.Lock()
	prepared := c.prepared
	m.mu.Unlock()
	if prepared {
		return nil
	}
	var devices []device
	for _, name := range c.drivers {
		d := m.driver(name)
		if d == nil {
			return fmt.Errorf("the DRA driver %s of ResourceClaim %s is not registered on this node any more; wait until it "+
				"has started again", name, c.key.Name)
		}
		more, err := d.prepare(ctx, c.message(), m.options.Timeout)
		if err != nil {
			return err
		}
		devices = append(devices, more...)
	}
	m.mu.Lock()
	c.devices, c.prepared = devices, true
	m.mu.Unlock()
	if err := m.save(); err != nil {
		m.mu.Lock()
		c.prepared = false
		m.mu.Unlock()
		return err
	}
	m.log.Info("Resource claim prepared", "namespace", c.key.Namespace, "claim", c.key.Name, "uid", c.uid, "drivers",
		c.drivers)
	return nil
}
