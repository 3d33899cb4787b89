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

	"github.com/podstead/podstead/internal/device"
	"github.com/podstead/podstead/internal/retry"
	"github.com/podstead/podstead/manifest"
)

// drainInterval is the time between two checks of the remaining pods.
const drainInterval = time.Second

// drain is the state of Leave.
type drain struct {
	mu sync.Mutex
	// started is set while Leave runs, mirrorsRemoved once mirror pods are deleted.
	started, mirrorsRemoved bool
	// done is closed when the node leaves for good, stopped when all work of the
	// adapter has stopped, after Leave or at the end of the daemon.
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

// showsMirrors reports whether static pods have mirror pods.
func (d *drain) showsMirrors() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.mirrorsRemoved
}

// Leave removes the node from the cluster: it cordons the node, evicts the
// cluster's pods, terminates those of daemon sets and the remaining ones, and
// deletes mirror pods, the lease and the Node object. Static pods keep running.
// Afterwards the adapter does nothing. If the context ends first, the node stays,
// cordoned, and Leave may be called again.
//
// It returns what only an administrator can delete, empty if there is nothing.
func (a *Adapter) Leave(ctx context.Context) (remains string, err error) {
	if err := a.drain.begin(); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			a.drain.cancel()
			a.podsChanged.Notify()
		}
	}()
	node := a.node()
	if node == nil {
		return "", errors.New("the node is not registered, or the API server has not answered yet")
	}
	a.cfg.Log.Info("Leaving the cluster", "node", a.name)
	if !node.Spec.Unschedulable {
		if _, err := a.patchNode(ctx, node, []byte(`{"spec":{"unschedulable":true}}`)); err != nil {
			return "", fmt.Errorf("cannot cordon node: %w", err)
		}
	}
	if err := a.evictAll(ctx); err != nil {
		return "", err
	}
	a.drain.removeMirrors()
	a.podsChanged.Notify()
	if err := a.awaitPods(ctx, "mirror pods", isMirror, nil); err != nil {
		return "", err
	}
	close(a.drain.done)
	<-a.drain.stopped
	a.cfg.Pods.Bound.Deliver(manifest.Set{Source: manifest.SourceAPI, Units: []manifest.Unit{{Name: a.client.server}},
		Time: time.Now()})
	remains = a.unregister(ctx)
	a.cfg.Log.Info("Left the cluster", "node", a.name)
	return remains, nil
}

// evictAll evicts the cluster's pods until none is left except those of daemon
// sets, which would return. Pods with resource claims are the first: a driver, which unprepares the
// claims, may be a pod as well.
func (a *Adapter) evictAll(ctx context.Context) error {
	if err := a.evict(ctx, device.HasClaims); err != nil {
		return err
	}
	return a.evict(ctx, func(*v1.Pod) bool { return true })
}

// evict evicts the pods of evictAll of one kind until none is left.
func (a *Adapter) evict(ctx context.Context, kind func(*v1.Pod) bool) error {
	return a.awaitPods(ctx, "pods", func(pod *v1.Pod) bool {
		owner := metav1.GetControllerOf(pod)
		return kind(pod) && !isMirror(pod) && (owner == nil || owner.Kind != "DaemonSet")
	}, func(pod *v1.Pod) error {
		if pod.DeletionTimestamp != nil {
			return nil
		}
		body, err := json.Marshal(map[string]any{
			"apiVersion": "policy/v1", "kind": "Eviction",
			"metadata": map[string]string{"name": pod.Name, "namespace": pod.Namespace},
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

// awaitPods waits until the API server has no matching pods, and calls each for
// those that remain.
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
		if !retry.Sleep(ctx, drainInterval) {
			slices.Sort(names)
			return errors.Join(fmt.Errorf("%s are still in the cluster: %s; the node stays, cordoned", what,
				strings.Join(names, ", ")), fault)
		}
	}
}

// unregister deletes the lease and the Node object.
func (a *Adapter) unregister(ctx context.Context) (remains string) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := a.client.coordination.Delete().Namespace(v1.NamespaceNodeLease).Resource("leases").Name(a.name).Do(
		ctx).Error(); err != nil && !apierrors.IsNotFound(err) {
		remains = fmt.Sprintf("failed to delete the node lease (%v); run: kubectl delete lease -n %s %s", err,
			v1.NamespaceNodeLease, a.name)
	}
	var uid types.UID
	if node := a.node(); node != nil {
		uid = node.UID
	}
	err := a.client.core.Delete().Resource("nodes").Name(a.name).
		Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		// The usual permissions of a node do not allow it to delete itself.
		remains = strings.TrimPrefix(remains+"\n"+
			fmt.Sprintf("failed to delete the node (%v); run: kubectl delete node %s", err, a.name), "\n")
	}
	return remains
}
