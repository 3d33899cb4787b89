package cri

import (
	"container/heap"
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"
)

// callsPerCPU is how many costly calls of a kind may be in progress for each CPU. A
// runtime that starts or stops more pods at once takes longer for all of them, and
// each call reaches its deadline although the runtime is healthy.
const callsPerCPU = 3

// minCalls is the least size of a gate: part of each call waits for something else
// than a CPU.
const minCalls = 4

// gateHold is how long a call can occupy a gate. One that takes longer hangs, or waits
// for a slow plugin, and keeps no other pod waiting.
const gateHold = 5 * time.Second

// signalHold is gateHold for a stop of containers: longer than the delivery of the
// signal, after which the containers only use their grace period.
const signalHold = 250 * time.Millisecond

// queuedNotice is how long a pod waits at a gate before its status shows that.
const queuedNotice = time.Second

// The stages of calls at a gate. What was begun is finished first.
const (
	stageRemove = iota // of dead containers and sandboxes
	stageBegin         // of a sandbox's start, or of the stop of a pod's containers
	stageFinish        // of a started sandbox's containers, or of the stop of the sandbox
)

// gate limits how many costly calls to the runtime are in progress. Calls wait in the
// order of the pods' priorities, then of their stages, then of their arrival. The
// deadline of a call and a grace period begin after the wait.
//
// The kill of single containers, of a pod that goes on, passes no gate: it is one call that mostly
// waits for the grace period, which a place at the gate cannot cover, and a container that fails
// its liveness probe is not to wait for the stops of other pods.
type gate struct {
	mu      sync.Mutex
	free    int
	arrived uint64
	queue   gateQueue
	// begins: calls of stageBegin enter at once, and are not counted.
	begins bool
}

// ungated removes the limit of gates if it is not empty. Only the linker sets it (-X), for the
// program that test/bench compares with.
var ungated string

func newGate() *gate {
	if ungated != "" {
		return &gate{free: math.MaxInt}
	}
	return &gate{free: max(minCalls, callsPerCPU*runtime.GOMAXPROCS(0))}
}

// gateTicket is a call that waits.
type gateTicket struct {
	priority int32
	stage    int
	arrived  uint64
	index    int // in the queue, -1 after it left
	admitted chan struct{}
	// uncounted: it occupies nothing after it was admitted.
	uncounted bool
}

// admitBegins lets all calls of stageBegin in at once, also those that wait, until it
// is called with false.
func (g *gate) admitBegins(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begins = on
	if !on {
		return
	}
	for _, ticket := range slices.Clone(g.queue) {
		if ticket.stage == stageBegin {
			heap.Remove(&g.queue, ticket.index)
			ticket.uncounted = true
			close(ticket.admitted)
		}
	}
}

// enter waits until a call may be made. leave, which may be called more than once,
// lets the next call in, and so does the end of hold. queued is called once if the
// wait is long; it may be nil. The only error is the end of ctx.
func (g *gate) enter(ctx context.Context, priority int32, stage int, hold time.Duration, queued func()) (leave func(),
	err error) {
	g.mu.Lock()
	if g.begins && stage == stageBegin {
		g.mu.Unlock()
		return func() {}, nil
	}
	if g.free > 0 && len(g.queue) == 0 {
		g.free--
		g.mu.Unlock()
		return g.occupy(hold), nil
	}
	g.arrived++
	ticket := &gateTicket{priority: priority, stage: stage, arrived: g.arrived, admitted: make(chan struct{})}
	heap.Push(&g.queue, ticket)
	g.mu.Unlock()
	notice := time.NewTimer(queuedNotice)
	defer notice.Stop()
	for {
		select {
		case <-ticket.admitted:
			if ticket.uncounted {
				return func() {}, nil
			}
			return g.occupy(hold), nil
		case <-notice.C:
			if queued != nil {
				queued()
			}
		case <-ctx.Done():
			g.mu.Lock()
			defer g.mu.Unlock()
			switch {
			case ticket.index >= 0:
				heap.Remove(&g.queue, ticket.index)
			case !ticket.uncounted:
				g.release()
			}
			return nil, context.Cause(ctx)
		}
	}
}

// occupy returns what ends the occupation, which ends by itself after hold.
func (g *gate) occupy(hold time.Duration) (leave func()) {
	release := sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.release()
	})
	timer := time.AfterFunc(hold, release)
	return func() {
		timer.Stop()
		release()
	}
}

// release lets the next call in. mu is held.
func (g *gate) release() {
	if len(g.queue) == 0 {
		g.free++
		return
	}
	close(heap.Pop(&g.queue).(*gateTicket).admitted)
}

// gateQueue is a heap of tickets, the next one first.
type gateQueue []*gateTicket

func (q gateQueue) Len() int { return len(q) }

func (q gateQueue) Less(i, j int) bool {
	a, b := q[i], q[j]
	switch {
	case a.priority != b.priority:
		return a.priority > b.priority
	case a.stage != b.stage:
		return a.stage > b.stage
	}
	return a.arrived < b.arrived
}

func (q gateQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push and Pop implement heap.Interface.
func (q *gateQueue) Push(x any) {
	ticket := x.(*gateTicket)
	ticket.index = len(*q)
	*q = append(*q, ticket)
}

// Pop removes the last ticket.
func (q *gateQueue) Pop() any {
	old := *q
	ticket := old[len(old)-1]
	ticket.index = -1
	*q = old[:len(old)-1]
	return ticket
}
