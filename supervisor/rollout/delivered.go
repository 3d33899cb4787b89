package rollout

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// moveWait is how long a pod of an earlier daemon that its source no longer declares may
// still be declared by a source that has not delivered: its manifest moved, such as from a
// file to an artifact. It is longer than a request to a server that responses.
const moveWait = 30 * time.Second

// markDelivered notes that a source has delivered all its pods, and removes what is
// stored of those that no source has. What is stored of a source that is not configured
// any more is removed when all have delivered.
func (c *Controller) markDelivered(source manifest.Source) {
	if c.loop.delivered[source] {
		return
	}
	c.loop.delivered[source] = true
	c.releaseConfirmed()
	all, static, known := true, true, map[manifest.Source]bool{}
	for _, s := range c.opts.Pods.Sources() {
		known[s] = true
		all = all && c.loop.delivered[s]
		static = static && (c.loop.delivered[s] || !podinfo.PolicyFor(s).Static)
	}
	now := time.Now()
	maps.DeleteFunc(c.loop.stored, func(name string, s *storedRollout) bool {
		switch {
		case all, static && c.loop.delivered[s.Source]:
			c.forget(name, s)
			return true
		case s.Source == source:
			s.until = now.Add(moveWait)
			if uid := s.currentUID(); uid != "" {
				c.locked(func() { c.moving[uid] = s.until })
			}
		}
		return false
	})
	if all {
		c.store.removeOthers(func(name string) bool { return c.byName[name] != nil })
	}
}

// forget removes what is stored of a pod that no manifest declares.
func (c *Controller) forget(name string, s *storedRollout) {
	c.store.remove(name)
	c.locked(func() { delete(c.moving, s.currentUID()) })
}

// expireMoves forgets the pods that no other source has declared in time.
func (c *Controller) expireMoves(now time.Time) {
	maps.DeleteFunc(c.loop.stored, func(name string, s *storedRollout) bool {
		expired := !s.until.IsZero() && !s.until.After(now)
		if expired {
			c.forget(name, s)
		}
		return expired
	})
}

// KeepsUntil returns until when a pod of an earlier daemon stays that its source no longer
// declares, since another source may declare it; zero if it does not stay.
func (c *Controller) KeepsUntil(uid types.UID) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	until, ok := c.moving[uid]
	if ok && !until.After(time.Now()) {
		delete(c.moving, uid)
		return time.Time{}
	}
	return until
}

// currentUID returns the UID of the revision in effect, empty if the history lacks it.
func (s *storedRollout) currentUID() types.UID {
	if i := s.History.index(s.Current); i >= 0 {
		return s.History[i].UID
	}
	return ""
}
