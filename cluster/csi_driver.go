package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podstead/podstead/internal/csivolume"
)

// csiDriver is the CSIDriver object of a driver that volumes of pods use. It is watched: an administrator
// changes its options while pods run, and a node may watch them.
type csiDriver struct {
	// driver is nil before the first answer.
	driver   *csivolume.Driver
	revision string
	// err is why the object cannot be read; driver stays what it was.
	err  error
	stop context.CancelFunc
}

// state changes with what is known of the driver; known is false before the first answer.
func (d *csiDriver) state() (state string, known bool) {
	switch {
	case d == nil || d.driver == nil && d.err == nil:
		return "?", false
	case d.driver == nil:
		return "!" + d.err.Error(), true
	}
	return d.revision, true
}

// CSIDriver returns what the CSIDriver object of a driver says, or what Kubernetes assumes without one. The
// error is why that is not known.
func (o *Objects) CSIDriver(name string) (csivolume.Driver, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d := o.drivers[name]
	switch {
	case d == nil || d.driver == nil && d.err == nil:
		return csivolume.Driver{}, fmt.Errorf("CSIDriver %s: %w", name, errNotAnswered)
	case d.driver == nil:
		return csivolume.Driver{}, fmt.Errorf("CSIDriver %s cannot be read from the API server: %w", name, d.err)
	}
	return *d.driver, nil
}

// startDriver begins to watch the object of a driver.
func (o *Objects) startDriver(ctx context.Context, wg *sync.WaitGroup, a *Adapter, name string) *csiDriver {
	d := &csiDriver{}
	ctx, d.stop = context.WithCancel(ctx)
	w := newReflector[*storagev1.CSIDriver](a.client.storage, "csidrivers", "metadata.name="+name, a.connection, nil)
	w.gate = o.lists
	w.onRefusal = func(err error, failures int) { o.setDriverRefusal(d, err, failures) }
	w.notify = func() {
		if all, synced := w.Objects(); synced {
			o.setDriver(d, all["/"+name])
		}
	}
	wg.Go(func() { w.Run(ctx) })
	return d
}

// setDriver takes the object of a driver; nil is none.
func (o *Objects) setDriver(d *csiDriver, found *storagev1.CSIDriver) {
	read := driverOptions(found)
	revision := ""
	if found != nil {
		revision = string(found.UID) + "-" + found.ResourceVersion
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if d.driver != nil && d.err == nil && d.revision == revision {
		return
	}
	d.driver, d.revision, d.err = &read, revision, nil
	o.subscribers.Notify()
	o.changed.Notify() // pods may need attachments and tokens now
}

func (o *Objects) setDriverRefusal(d *csiDriver, err error, failures int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if failures < toleratedRefusals || d.err != nil && d.err.Error() == err.Error() {
		return
	}
	d.err = err
	o.subscribers.Notify()
}

// driverOptions returns what an object says, and the API's defaults for what it does not say.
func driverOptions(found *storagev1.CSIDriver) csivolume.Driver {
	if found == nil {
		return csivolume.Driver{Attach: true, Persistent: true}
	}
	spec := &found.Spec
	d := csivolume.Driver{
		Attach: spec.AttachRequired == nil || *spec.AttachRequired, PodInfo: isTrue(spec.PodInfoOnMount),
		Persistent: len(spec.VolumeLifecycleModes) == 0 ||
			slices.Contains(spec.VolumeLifecycleModes, storagev1.VolumeLifecyclePersistent),
		Ephemeral: slices.Contains(spec.VolumeLifecycleModes, storagev1.VolumeLifecycleEphemeral),
		Tokens:    spec.TokenRequests, TokensInSecrets: isTrue(spec.ServiceAccountTokenInSecrets),
		Republish: isTrue(spec.RequiresRepublish), SELinuxMount: isTrue(spec.SELinuxMount),
	}
	if spec.FSGroupPolicy != nil {
		d.GroupPolicy = *spec.FSGroupPolicy
	}
	return d
}

func isTrue(b *bool) bool { return b != nil && *b }

// driverToken returns the key of a token of a pod for a driver.
func driverToken(pod *v1.Pod, request *storagev1.TokenRequest) tokenKey {
	return tokenOf(pod, &v1.ServiceAccountTokenProjection{Audience: request.Audience,
		ExpirationSeconds: request.ExpirationSeconds})
}

// CSITokens returns tokens of the pod's service account for a driver, as JSON by audience, in the form that
// drivers know from the kubelet.
func (o *Objects) CSITokens(pod *v1.Pod, requests []storagev1.TokenRequest) (string, error) {
	type driverTokenJSON struct {
		Token   string    `json:"token"`
		Expires time.Time `json:"expirationTimestamp"`
	}
	all := map[string]driverTokenJSON{}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range requests {
		t := o.tokens[driverToken(pod, &requests[i])]
		value, err := t.current()
		if err != nil {
			return "", err
		}
		all[requests[i].Audience] = driverTokenJSON{value, t.expiresAt.UTC().Truncate(time.Second)}
	}
	text, err := json.Marshal(all)
	return string(text), err
}
