package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/manifest"
)

// leavePeriod is the time between two looks at what still holds a departure up.
const drainInterval = time.Second

// departure is how far the node is in leaving.
type drain struct {
	mu sync.Mutex
	// begun is set while Leave runs, unshown once mirrors are taken away.
	started, mirrorsRemoved bool
	// left is closed when the node leaves for good, stopped when nothing of the
	// adapter is at work any more, be it for that or since the daemon ends.
	done, stopped chan struct{}
	stopOnce      sync.Once
}

func (d *drain) stop() { d.stopOnce.Do(func() { close(d.stopped) }) }

func (d *drain) begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.started {
		return errors.New("the node is already leaving the cluster, or has left it")
	}
	d.started = true
	return nil
}

func (d *drain) cancel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.started, d.mirrorsRemoved = false, false
}

func (d *drain) removeMirrors() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mirrorsRemoved = true
}

// showsMirrors tells whether static pods are to be seen in the cluster.
func (d *drain) showsMirrors() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.mirrorsRemoved
}

// Leave takes the node out of the cluster: nothing new is bound to it, the
// cluster's pods are evicted, those of daemon sets and what is left are ended
// here, mirrors, lease and the node's object are removed. Pods of files and URLs run on.
// From then on the adapter does nothing. If the context ends before, the node
// stays, closed for new pods, and Leave may be called again.
//
// It returns what only an administrator can remove, empty if there is nothing.
func (a *Adapter) Leave(ctx context.Context) (remains string, err error) {
	if err := a.drain.begin(); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			a.drain.cancel()
			notify(a.podsChanged)
		}
	}()
	node := a.node()
	if node == nil {
		return "", errors.New("the node is not registered, or the API server has not answered yet")
	}
	a.cfg.Log.Info("Leaving the cluster", "node", a.name)
	if !node.Spec.Unschedulable {
		if err := a.patchNode(ctx, node, []byte(`{"spec":{"unschedulable":true}}`)); err != nil {
			return "", fmt.Errorf("cannot cordon node: %w", err)
		}
	}
	if err := a.evictAll(ctx); err != nil {
		return "", err
	}
	a.drain.removeMirrors()
	notify(a.podsChanged)
	if err := a.awaitPods(ctx, "mirror pods", isMirror, nil); err != nil {
		return "", err
	}
	close(a.drain.done)
	<-a.drain.stopped
	a.cfg.Pods.Bound.Deliver(manifest.Set{Source: manifest.SourceAPI, Units: []manifest.Unit{{Name: a.client.server}}, Time: time.Now()})
	remains = a.unregister(ctx)
	a.cfg.Log.Info("Left the cluster", "node", a.name)
	return remains, nil
}

// evictAll evicts the cluster's pods until all are gone but those of daemon
// sets, which would come back.
func (a *Adapter) evictAll(ctx context.Context) error {
	return a.awaitPods(ctx, "pods", func(pod *v1.Pod) bool {
		owner := metav1.GetControllerOf(pod)
		return !isMirror(pod) && (owner == nil || owner.Kind != "DaemonSet")
	}, func(pod *v1.Pod) error {
		if pod.DeletionTimestamp != nil {
			return nil
		}
		body, err := json.Marshal(map[string]any{
			"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]string{"name": pod.Name, "namespace": pod.Namespace},
		})
		if err != nil {
			return err
		}
		err = a.client.core.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
			SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// awaitPods waits until the API server has no more pods of that kind, and does
// something for each until then.
func (a *Adapter) awaitPods(ctx context.Context, what string, kind func(*v1.Pod) bool, each func(*v1.Pod) error) error {
	for {
		known, synced := a.pods.Objects()
		var names []string
		var fault error
		for name, pod := range known {
			if !kind(pod) {
				continue
			}
			names = append(names, name)
			if each == nil {
				continue
			}
			if err := each(pod); err != nil {
				fault = fmt.Errorf("%s: %w", name, err)
			}
		}
		if synced && len(names) == 0 {
			return nil
		}
		if !sleep(ctx, drainInterval) {
			slices.Sort(names)
			return errors.Join(fmt.Errorf("%s are still in the cluster: %s; the node stays, cordoned", what, strings.Join(names, ", ")), fault)
		}
	}
}

// unregister removes the lease and the node's object.
func (a *Adapter) unregister(ctx context.Context) (remains string) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := a.client.coordination.Delete().Namespace(v1.NamespaceNodeLease).Resource("leases").Name(a.name).Do(ctx).Error(); err != nil && !apierrors.IsNotFound(err) {
		remains = fmt.Sprintf("failed to delete the node lease (%v); run: kubectl delete lease -n %s %s", err, v1.NamespaceNodeLease, a.name)
	}
	var uid types.UID
	if node := a.node(); node != nil {
		uid = node.UID
	}
	err := a.client.core.Delete().Resource("nodes").Name(a.name).
		Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		// The usual rights of a node do not let it remove itself.
		remains = strings.TrimPrefix(remains+"\n"+fmt.Sprintf("failed to delete the node (%v); run: kubectl delete node %s", err, a.name), "\n")
	}
	return remains
}
