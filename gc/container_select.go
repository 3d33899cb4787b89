package gc

import (
	"time"

	"github.com/podstead/podstead/cri"
)

// ContainerPolicy limits the dead containers of pods that keep running. The zero
// value keeps one dead instance of each container.
type ContainerPolicy struct {
	// MinAge is how long after its creation a container is not removed.
	MinAge time.Duration
	// MaxPerContainer is how many dead instances of one container of a pod are
	// kept; negative means no limit, 0 counts as 1: the last one has the logs of
	// kubectl logs --previous and the container's last state.
	MaxPerContainer int
	// MaxTotal is how many are kept of all pods together, 0 or negative for no
	// limit. It is divided evenly, and the last of each container is kept even
	// beyond it. (The kubelet removes those too.)
	MaxTotal int
}

// Garbage is what to remove.
type Garbage struct {
	// Pods contain only the dead containers and sandboxes to remove.
	Pods []*cri.Pod
	// Next is when the next container becomes old enough; zero if none will.
	Next time.Time
}

// instances are the dead instances of one container of a pod, newest first.
type instances struct {
	pod  int
	dead []*cri.Container
}

// SelectContainers selects what is no longer needed of these pods. The newest
// instance of each container is kept in any state, and so is what runs or may
// run. The newest sandbox of each pod is kept, and each one that a kept container
// belongs to.
func SelectContainers(pods []*cri.Pod, p ContainerPolicy, now time.Time) Garbage {
	var units []instances
	removed := make([]map[string]bool, len(pods)) // container IDs
	remove := func(pod int, c *cri.Container, g *Garbage) {
		// A creation time in the future dates from before the clock was set.
		if at := c.CreatedAt.Add(p.MinAge); at.After(now) && !c.CreatedAt.After(now) {
			if g.Next.IsZero() || at.Before(g.Next) {
				g.Next = at
			}
			return
		}
		if removed[pod] == nil {
			removed[pod] = map[string]bool{}
		}
		removed[pod][c.ID] = true
	}
	var g Garbage
	for i, pod := range pods {
		seen := map[string]int{} // unit by container name
		for k := range pod.Containers {
			c := &pod.Containers[k]
			unit, known := seen[c.Name]
			if !known {
				unit = len(units)
				seen[c.Name] = unit
				units = append(units, instances{pod: i})
			}
			switch {
			case c.State == cri.StateExited:
				units[unit].dead = append(units[unit].dead, c)
			case c.State == cri.StateCreated && known:
				// A newer one exists: this one will never be started.
				remove(i, c, &g)
			}
		}
	}
	keep := p.perContainer(units)
	for _, u := range units {
		for k := keep; k >= 0 && k < len(u.dead); k++ {
			remove(u.pod, u.dead[k], &g)
		}
	}
	for i, pod := range pods {
		if gone := garbageOf(pod, removed[i]); gone != nil {
			g.Pods = append(g.Pods, gone)
		}
	}
	return g
}

// perContainer returns how many dead instances of each container are kept to meet
// the total; negative is all.
func (p ContainerPolicy) perContainer(units []instances) int {
	keep := p.MaxPerContainer
	if keep == 0 {
		keep = 1
	}
	if p.MaxTotal <= 0 {
		return keep
	}
	longest := 1
	for _, u := range units {
		longest = max(longest, len(u.dead))
	}
	if keep < 0 || keep > longest {
		keep = longest
	}
	for ; keep > 1; keep-- {
		total := 0
		for _, u := range units {
			total += min(len(u.dead), keep)
		}
		if total <= p.MaxTotal {
			break
		}
	}
	return keep
}

// garbageOf returns what to remove of one pod, nil if nothing.
func garbageOf(pod *cri.Pod, removed map[string]bool) *cri.Pod {
	if len(removed) == 0 && len(pod.Sandboxes) < 2 {
		return nil
	}
	gone := &cri.Pod{UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace, Source: pod.Source}
	needed := map[string]bool{}
	for i := range pod.Containers {
		if c := &pod.Containers[i]; removed[c.ID] {
			gone.Containers = append(gone.Containers, *c)
		} else {
			needed[c.SandboxID] = true
		}
	}
	for i := range pod.Sandboxes {
		if b := &pod.Sandboxes[i]; i > 0 && !b.Ready && !needed[b.ID] {
			gone.Sandboxes = append(gone.Sandboxes, *b)
		}
	}
	if len(gone.Containers)+len(gone.Sandboxes) == 0 {
		return nil
	}
	return gone
}

// RunState reports whether the run of a pod has ended.
type RunState uint8

// The states of a run.
const (
	// RunActive: it runs, or will continue.
	RunActive RunState = iota
	// RunEndedWillRestart: it starts again later, and needs only the attempt of
	// its newest sandbox.
	RunEndedWillRestart
	// RunEndedForGood: nothing of it starts again.
	RunEndedForGood
)

// SelectEnded selects everything dead of a pod whose run has ended, nil if there
// is nothing. What is younger than the policy's age is kept even then, and each
// sandbox that it belongs to.
func SelectEnded(pod *cri.Pod, e RunState, p ContainerPolicy, now time.Time) *cri.Pod {
	if e == RunActive {
		return nil
	}
	gone := &cri.Pod{UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace, Source: pod.Source}
	needed := map[string]bool{}
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if c.State == cri.StateExited && !younger(c.CreatedAt, p.MinAge, now) {
			gone.Containers = append(gone.Containers, *c)
		} else {
			needed[c.SandboxID] = true
		}
	}
	for i := range pod.Sandboxes {
		if b := &pod.Sandboxes[i]; !b.Ready && !needed[b.ID] && (i > 0 || e == RunEndedForGood) {
			gone.Sandboxes = append(gone.Sandboxes, *b)
		}
	}
	if len(gone.Containers)+len(gone.Sandboxes) == 0 {
		return nil
	}
	return gone
}
