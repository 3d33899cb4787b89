package event

import (
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wakeup"
)

const (
	// DefaultLimit is how many events are kept when Config.Limit is 0.
	DefaultLimit = 1000
	// DefaultMaxAge is how long after its last occurrence an event is kept
	// when Config.MaxAge is 0. An API server keeps events for an hour, but here
	// this is the only copy.
	DefaultMaxAge = 7 * 24 * time.Hour
	// maxPerObject is how many events of one pod are kept: a pod whose events
	// differ each time must not displace those of all others.
	maxPerObject = 100
	// burstGap is how long an event must not have occurred before it is logged
	// again. It is the time after which crash-loop and image back-off start over:
	// a loop that goes on is one line, a new loop is a new line.
	burstGap = 10 * time.Minute
	// maxMessage is the API's bound on an event's message, in bytes.
	maxMessage = 1024
	// component is the source component of every event.
	component = "podstead"
)

// Config configures a Recorder.
type Config struct {
	// Node is the node's name, the source host of every event.
	Node string
	// Limit is how many events are kept, the newest; 0 means DefaultLimit.
	Limit int
	// MaxAge is how long an event is kept; 0 means DefaultMaxAge.
	MaxAge time.Duration
	// File keeps the events over a restart of the daemon; empty keeps them in
	// memory only.
	File string
	// Disk is where File is.
	Disk statefile.Disk
	// Log gets the first event of each burst; nil discards them.
	Log *slog.Logger
}

// key identifies an event: two with the same key are one. The kubelet's recorder
// compares more fields, but they all follow from these. The message is without
// IDs: a runtime names another sandbox in each failure of the same kind.
type key struct {
	uid                        types.UID
	eventType, reason, message string
}

type entry struct {
	key   key
	event v1.Event
	last  time.Time
	// dirty: the journal has an older state of the event, or none.
	dirty bool
}

// Recorder keeps the newest events. It is safe for concurrent use. No method but
// Run ever blocks on a reader or a disk.
type Recorder struct {
	node   string
	limit  int
	maxAge time.Duration
	log    *slog.Logger

	// journal is nil without a file. Only Run uses it and fault.
	journal   *journal
	fault     string
	unwritten wakeup.Signal

	mu          sync.Mutex
	entries     map[key]*list.Element // of *entry
	order       *list.List            // newest occurrence first
	perObject   map[types.UID]int
	stamp       int64 // of the newest name; names are unique
	subscribers wakeup.Broadcast
}

// New returns a recorder with the events in the file. A file that cannot be read
// is logged and costs only history.
func New(cfg Config) *Recorder {
	if cfg.Limit <= 0 {
		cfg.Limit = DefaultLimit
	}
	if cfg.MaxAge <= 0 {
		cfg.MaxAge = DefaultMaxAge
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Recorder{
		node:      cfg.Node,
		limit:     cfg.Limit,
		maxAge:    cfg.MaxAge,
		log:       cfg.Log,
		unwritten: wakeup.NewSignal(),
		entries:   map[key]*list.Element{},
		order:     list.New(),
		perObject: map[types.UID]int{},
	}
	if cfg.File != "" {
		r.journal = &journal{path: cfg.File, disk: cfg.Disk}
		events, err := r.journal.load()
		if err != nil {
			r.log.Warn("Could not load all previous events", "err", err)
		}
		r.restore(events, time.Now())
	}
	return r
}

// Event records that something happened to the pod, or to the node if pod is
// nil. eventType is v1.EventTypeNormal or v1.EventTypeWarning. An event equal
// to a kept one raises its count and its last time, as in the kubelet's recorder.
// A message longer than 1024 bytes is truncated.
func (r *Recorder) Event(pod *v1.Pod, eventType, reason, message string) {
	now := time.Now()
	message = truncate(message)
	k := key{eventType: eventType, reason: reason, message: WithoutIDs(message)}
	if pod != nil {
		k.uid = pod.UID
	}
	if r.record(k, pod, message, now) {
		r.logEvent(pod, k, message)
	}
}

// record counts the event and reports whether it is the first of a burst.
func (r *Recorder) record(k key, pod *v1.Pod, message string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.subscribers.Notify()
	defer r.notifyWriter()
	if el, ok := r.entries[k]; ok {
		e := el.Value.(*entry)
		first := now.Sub(e.last) > burstGap
		e.last, e.dirty = now, true
		e.event.Count++
		e.event.Message = message
		e.event.LastTimestamp = metav1.NewTime(now).Rfc3339Copy()
		r.order.MoveToFront(el)
		return first
	}
	r.insert(&entry{key: k, event: r.newEvent(k, pod, message, now), last: now, dirty: true})
	return true
}

// insert adds an event and enforces the bounds; mu is held.
func (r *Recorder) insert(e *entry) {
	r.entries[e.key] = r.order.PushFront(e)
	r.perObject[e.key.uid]++
	if r.perObject[e.key.uid] > maxPerObject {
		for el := r.order.Back(); el != nil; el = el.Prev() {
			if el.Value.(*entry).key.uid == e.key.uid {
				r.remove(el)
				break
			}
		}
	}
	if r.order.Len() > r.limit {
		r.remove(r.order.Back())
	}
}

func (r *Recorder) newEvent(k key, pod *v1.Pod, message string, now time.Time) v1.Event {
	object := v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: r.node, UID: types.UID(r.node)}
	namespace := metav1.NamespaceDefault
	if pod != nil {
		namespace = pod.Namespace
		object = v1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name,
			UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		}
	}
	at := metav1.NewTime(now).Rfc3339Copy()
	r.stamp = max(r.stamp+1, now.UnixNano())
	return v1.Event{
		TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			// The form of the kubelet's event names.
			Name:              fmt.Sprintf("%s.%x", object.Name, r.stamp),
			Namespace:         namespace,
			CreationTimestamp: at,
		},
		InvolvedObject:      object,
		Type:                k.eventType,
		Reason:              k.reason,
		Message:             message,
		Source:              v1.EventSource{Component: component, Host: r.node},
		FirstTimestamp:      at,
		LastTimestamp:       at,
		Count:               1,
		ReportingController: component,
		ReportingInstance:   r.node,
	}
}

func (r *Recorder) logEvent(pod *v1.Pod, k key, message string) {
	level := slog.LevelInfo
	if k.eventType == v1.EventTypeWarning {
		level = slog.LevelWarn
	}
	attrs := []any{"reason", k.reason}
	if pod != nil {
		attrs = append(attrs, "pod", pod.Namespace+"/"+pod.Name)
	}
	r.log.Log(context.Background(), level, message, attrs...)
}

// List returns a copy of the kept events, in the order of their last occurrence.
func (r *Recorder) List() []v1.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire(time.Now())
	events := make([]v1.Event, 0, r.order.Len())
	for el := r.order.Back(); el != nil; el = el.Prev() {
		events = append(events, el.Value.(*entry).event)
	}
	return events
}

// Last returns the message of the newest event of a pod with the reason, empty if there is none.
func (r *Recorder) Last(uid types.UID, reason string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire(time.Now())
	for el := r.order.Front(); el != nil; el = el.Next() {
		if e := el.Value.(*entry); e.key.uid == uid && e.key.reason == reason {
			return e.event.Message
		}
	}
	return ""
}

// Subscribe returns a channel that receives after an event was recorded;
// notifications coalesce. The returned function ends the subscription.
func (r *Recorder) Subscribe() (<-chan struct{}, func()) { return r.subscribers.Subscribe() }

// truncate bounds a message without splitting a rune.
func truncate(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
}
