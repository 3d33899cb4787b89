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
	dir         *edit.Directory
	fingerprint string
	drop        *time.Timer
	// reads counts the calls of read, for tests.
	reads int
}

// find calls use with the manifests at a path, which it reads again only if they have changed.
func (c *readCache) find(path string, read func() (*edit.Directory, error), use func(*edit.Directory)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Before the manifests are read: a later change gives them another fingerprint.
	now := edit.Fingerprint(path)
	dir := c.dir
	if now == "" || dir == nil || now != c.fingerprint {
		var err error
		c.reads++
		if dir, err = read(); err != nil {
			return err
		}
	}
	c.dir, c.fingerprint = nil, ""
	if now != "" {
		c.dir, c.fingerprint = dir, now
		if c.drop == nil {
			c.drop = time.AfterFunc(keptFor, c.forget)
		}
		c.drop.Reset(keptFor)
	}
	use(dir)
	return nil
}

func (c *readCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dir, c.fingerprint = nil, ""
}
