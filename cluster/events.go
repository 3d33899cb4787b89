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
	"github.com/podstead/podstead/internal/retry"
)

const (
	// eventsKept is how long an API server keeps an event by default: older events
	// are not sent.
	eventsKept = time.Hour
	// eventsBatch is how long events are collected before they are sent: a repeated
	// event is sent once with its count.
	eventsBatch = time.Second
	// eventsChunk is how many events are sent before it is checked whether there are newer ones.
	eventsChunk = 20
)

// Events has the recent events, oldest first. Implemented by event.Recorder.
type Events interface {
	Recorder
	List() []v1.Event
	Subscribe() (<-chan struct{}, func())
}

// sendEvents sends the events that the API server lacks, and returns when to try
// again.
func (a *Adapter) sendEvents(ctx context.Context) (time.Duration, error) {
	// Events of a node come after the Node object.
	node := a.node()
	if node == nil || !retry.Sleep(ctx, eventsBatch) {
		return 0, nil
	}
	a.sent.load(node.UID, a.cfg.Log)
	for {
		next := a.sent.unsent(a.cfg.Events.List(), time.Now())
		if err := a.sendAll(ctx, next[:min(len(next), eventsChunk)]); err != nil {
			a.sent.newSince = time.Now()
			a.sent.save(node.UID, false)
			return 0, err
		}
		if len(next) <= eventsChunk {
			return a.sent.save(node.UID, false), nil
		}
	}
}

// saveSentEvents writes what was sent when no more events are sent.
func (a *Adapter) saveSentEvents() {
	if node := a.node(); node != nil {
		a.sent.save(node.UID, true)
	}
}

// sendAll sends these events.
func (a *Adapter) sendAll(ctx context.Context, next []v1.Event) error {
	if len(next) == 0 {
		return nil
	}
	// An event refers to the UID of the mirror pod, as the kubelet's do.
	mirrored := map[types.UID]types.UID{}
	for _, pod := range a.cfg.Pods.List() {
		if !isBound(pod) {
			mirrored[pod.UID] = types.UID(pod.Annotations[podinfo.AnnotationHash])
		}
	}
	for i := range next {
		e := &next[i]
		if hash := mirrored[e.InvolvedObject.UID]; hash != "" {
			e.InvolvedObject.UID = hash
		}
		err := a.sendEvent(ctx, e, a.sent.counts[key(e)] == 0)
		if err != nil && !isResponse(err) {
			return err
		}
		// A refusal, for example because the namespace is missing, is final: the
		// event can be read here.
		a.sent.add(e)
	}
	return nil
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
