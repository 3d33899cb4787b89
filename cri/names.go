package cri

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// A runtime reserves the name of a sandbox, which contains the pod's name, namespace,
// UID and attempt, until the sandbox is removed. A pod of another podstead from the
// same manifest has the same UID, and after its end its sandboxes and containers
// still have the names. They are left alone, and the next attempt is used.

// maxReservedTries is how often a name that is reserved for a sandbox which no list
// shows is tried: mostly it is that of a call which is still in progress and whose
// reply was lost.
const maxReservedTries = 5

// reservedNames counts, by pod, the failures to create a sandbox whose name is
// reserved and that no list shows. The zero value is ready to use.
type reservedNames struct {
	mu   sync.Mutex
	pods map[types.UID]reservedName
}

type reservedName struct {
	attempt uint32
	tries   int
}

// failed counts a failure and reports whether the name is given up.
func (r *reservedNames) failed(uid types.UID, attempt uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods == nil {
		r.pods = map[types.UID]reservedName{}
	}
	name := r.pods[uid]
	if name.attempt != attempt {
		name = reservedName{attempt: attempt}
	}
	name.tries++
	r.pods[uid] = name
	return name.tries >= maxReservedTries
}

func (r *reservedNames) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, uid)
}

// foreignTwin returns the pod of another client that has the UID of this one, nil if
// there is none.
func (t *transaction) foreignTwin(ctx context.Context) (*Pod, error) {
	observed, err := t.runtime.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, other := range observed.Foreign {
		if other.UID == t.Pod.UID {
			return other, nil
		}
	}
	return nil, nil
}

// freeAttempt returns the attempt to use instead of one whose name is reserved, or an
// error that reports why there is none yet. cause is the runtime's error.
func (t *transaction) freeAttempt(ctx context.Context, attempt uint32, cause error) (uint32, error) {
	twin, err := t.foreignTwin(ctx)
	if err != nil {
		return 0, err
	}
	if twin == nil {
		if t.reserved.failed(t.Pod.UID, attempt) {
			return attempt + 1, nil
		}
		return 0, cause
	}
	if twin.Running() {
		return 0, fmt.Errorf("%s; it belongs to a pod that another client of the runtime runs (UID %s), which must be "+
			"stopped first", detail(cause), twin.UID)
	}
	next := attempt
	for i := range twin.Sandboxes {
		next = max(next, twin.Sandboxes[i].Attempt+1)
	}
	if next == attempt {
		return 0, cause
	}
	return next, nil
}

// freeContainerAttempt returns the attempt of a new container whose name is reserved:
// the first that no container of another client's dead pod has. It is 0 if no such
// pod is the reason.
func (t *transaction) freeContainerAttempt(ctx context.Context, name string) int {
	twin, err := t.foreignTwin(ctx)
	if err != nil || twin == nil || twin.Running() {
		return 0
	}
	next := 0
	for i := range twin.Containers {
		if c := &twin.Containers[i]; c.Name == name {
			next = max(next, c.RestartCount+1)
		}
	}
	return next
}
