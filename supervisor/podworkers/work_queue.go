package podworkers

import (
	"container/heap"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/wakeup"
)

// workQueue holds for each pod the time of its next sync. Nothing polls it: the
// sync loop arms one timer for the earliest entry and is notified when an earlier
// one is added.
type workQueue struct {
	mu      sync.Mutex
	items   dueHeap
	byUID   map[types.UID]*due
	changed wakeup.Signal
}

type due struct {
	uid   types.UID
	at    time.Time
	index int
}

func newWorkQueue() *workQueue {
	return &workQueue{byUID: map[types.UID]*due{}, changed: wakeup.NewSignal()}
}

// set sets the time of a pod's next sync and replaces an earlier entry.
func (q *workQueue) set(uid types.UID, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d, ok := q.byUID[uid]; ok {
		d.at = at
		heap.Fix(&q.items, d.index)
	} else {
		d = &due{uid: uid, at: at}
		q.byUID[uid] = d
		heap.Push(&q.items, d)
	}
	if q.items[0].uid == uid {
		q.changed.Notify()
	}
}

// remove removes a pod's entry. A timer that is armed for it finds nothing due.
func (q *workQueue) remove(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d, ok := q.byUID[uid]; ok {
		heap.Remove(&q.items, d.index)
		delete(q.byUID, uid)
	}
}

// earliest returns the time of the first entry.
func (q *workQueue) earliest() (time.Time, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return time.Time{}, false
	}
	return q.items[0].at, true
}

// pop removes one entry that is due.
func (q *workQueue) pop(now time.Time) (types.UID, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 || q.items[0].at.After(now) {
		return "", false
	}
	d := heap.Pop(&q.items).(*due)
	delete(q.byUID, d.uid)
	return d.uid, true
}

// dueHeap implements heap.Interface, the earliest entry first.
type dueHeap []*due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *dueHeap) Push(x any) {
	d := x.(*due)
	d.index = len(*h)
	*h = append(*h, d)
}

func (h *dueHeap) Pop() any {
	old := *h
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return d
}
