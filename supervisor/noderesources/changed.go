package noderesources

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Run merges the notifications of all resources into Changed until the context ends.
func (l *List) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, c := range l.changers {
		changed := c.Changed()
		if changed == nil {
			continue
		}
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-changed:
					l.pending[i].Store(true)
					l.changed.Notify()
				}
			}
		})
	}
}

// Changed receives after TakeChanged has something to return.
func (l *List) Changed() <-chan struct{} { return l.changed.C() }

// TakeChanged returns the pods that are to be synced, and whether a revision that Preview has refused may
// be possible now.
func (l *List) TakeChanged() (pods []types.UID, previews bool) {
	for i, c := range l.changers {
		if !l.pending[i].Swap(false) {
			continue
		}
		uids, again := c.TakeChanged()
		pods, previews = append(pods, uids...), previews || again
	}
	return pods, previews
}
