package cluster

import (
	"context"
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

const (
	// eventsKept is how long an API server keeps an event by default: older events
	// are not sent.
	eventsKept = time.Hour
	// eventsBatch is how long events are collected before they are sent: a repeated
	// event is sent once with its count.
	eventsBatch = time.Second
)

// Events has the recent events, oldest first. Implemented by event.Recorder.
type Events interface {
	Recorder
	List() []v1.Event
	Subscribe() (<-chan struct{}, func())
}

// sentEvents has the counts of the events that the API server has, by name. The
// recorder's list is the queue: nothing is queued here.
type sentEvents map[types.NamespacedName]int32

func nameOf(e *v1.Event) types.NamespacedName {
	return types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
}

// unsent returns the events to send, of the last hour and in order. It drops
// events that the recorder has dropped.
func (s sentEvents) unsent(events []v1.Event, now time.Time) (next []v1.Event) {
	kept := make(map[types.NamespacedName]bool, len(events))
	for _, e := range events {
		name := nameOf(&e)
		kept[name] = true
		if s[name] != e.Count && now.Sub(e.LastTimestamp.Time) < eventsKept {
			next = append(next, e)
		}
	}
	for name := range s {
		if !kept[name] {
			delete(s, name)
		}
	}
	return next
}

// sendEvents sends the events that the API server lacks, and returns when to try
// again.
func (a *Adapter) sendEvents(ctx context.Context) (time.Duration, error) {
	// Events of a node come after the Node object.
	if a.node() == nil || !sleep(ctx, eventsBatch) {
		return 0, nil
	}
	next := a.sent.unsent(a.cfg.Events.List(), time.Now())
	if len(next) == 0 {
		return 0, nil
	}
	// An event refers to the UID of the mirror pod, as the kubelet's do.
	mirrored := map[types.UID]types.UID{}
	for _, pod := range a.cfg.Pods.List() {
		if !isBound(pod) {
			mirrored[pod.UID] = types.UID(pod.Annotations[podinfo.AnnotationHash])
		}
	}
	for _, e := range next {
		if hash := mirrored[e.InvolvedObject.UID]; hash != "" {
			e.InvolvedObject.UID = hash
		}
		name := nameOf(&e)
		err := a.sendEvent(ctx, &e, a.sent[name] == 0)
		if err != nil && !isAnswer(err) {
			return 0, err
		}
		// A refusal, for example because the namespace is missing, is final: the
		// event can be read here.
		a.sent[name] = e.Count
	}
	return 0, nil
}

// sendEvent creates the event in the API, or increments its count.
func (a *Adapter) sendEvent(ctx context.Context, e *v1.Event, first bool) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	post := func() error {
		made := e.DeepCopy()
		made.ObjectMeta = metav1.ObjectMeta{Name: e.Name, Namespace: e.Namespace}
		return a.client.events.Post().Namespace(e.Namespace).Resource("events").Body(made).Do(ctx).Error()
	}
	if first {
		// An earlier daemon may have sent it.
		if err := post(); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	body, err := json.Marshal(map[string]any{"count": e.Count, "lastTimestamp": e.LastTimestamp, "message": e.Message})
	if err != nil {
		return err
	}
	err = a.client.events.Patch(types.MergePatchType).Namespace(e.Namespace).Resource("events").Name(e.Name).Body(body).Do(
		ctx).Error()
	if apierrors.IsNotFound(err) {
		// The API server no longer has it.
		return post()
	}
	return err
}
