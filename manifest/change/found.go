package change

import (
	"sync"
	"time"

	"github.com/podstead/podstead/manifest/edit"
)

// keptFor is how long the manifests that were read for Find are kept without another call.
const keptFor = time.Minute

// readCache keeps the manifests that were read, so that a client that gets many objects one by one
// does not have the whole directory decoded for each of them.
type readCache struct {
	mu          sync.Mutex
	set         *Set
	fingerprint string
	drop        *time.Timer
	// reads counts the calls of read, for tests.
	reads int
}

// find calls use with the manifests at a path, which it reads again only if they have changed.
func (c *readCache) find(path string, read func() (*Set, error), use func(*Set)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Before the manifests are read: a later change gives them another fingerprint.
	now := edit.Fingerprint(path)
	set := c.set
	if now == "" || set == nil || now != c.fingerprint {
		var err error
		c.reads++
		if set, err = read(); err != nil {
			return err
		}
	}
	c.set, c.fingerprint = nil, ""
	if now != "" {
		c.set, c.fingerprint = set, now
		if c.drop == nil {
			c.drop = time.AfterFunc(keptFor, c.forget)
		}
		c.drop.Reset(keptFor)
	}
	use(set)
	return nil
}

func (c *readCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set, c.fingerprint = nil, ""
}
