package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/internal/csivolume"
)

// csiDriver is what the node reads of a CSIDriver object, with the version that it has it from.
type csiDriver struct {
	csivolume.Driver
	revision string
}

// csiDrivers are the CSIDriver objects of the cluster. They are watched together, from the first pod with a CSI volume
// to the last: an administrator changes their options while pods run, a node may watch them, and the pods of tenants
// name any number of drivers.
type csiDrivers struct {
	// known is by name, nil before the first response.
	known map[string]csiDriver
	// err is why they cannot be read; known stays what it was.
	err error
	// stop ends the watch, nil while there is none.
	stop context.CancelFunc
}

// find returns what the object of a driver reports, or what Kubernetes assumes without one; ok is false unless that is
// known.
func (d *csiDrivers) find(name string) (found csiDriver, ok bool) {
	if d.known == nil {
		return csiDriver{}, false
	}
	if found, ok = d.known[name]; !ok {
		found.Driver = driverOptions(nil)
	}
	return found, true
}

// state changes with what is known of a driver; known is false before the first response.
func (d *csiDrivers) state(name string) (state string, known bool) {
	found, ok := d.find(name)
	switch {
	case ok:
		return found.revision, true
	case d.err != nil:
		return "!" + d.err.Error(), true
	}
	return "?", false
}

// CSIDriver returns what the CSIDriver object of a driver reports, or what Kubernetes assumes without one. The
// error is why that is not known.
func (o *Objects) CSIDriver(name string) (csivolume.Driver, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found, ok := o.drivers.find(name)
	switch {
	case ok:
		return found.Driver, nil
	case o.drivers.err != nil:
		return csivolume.Driver{}, fmt.Errorf("CSIDriver %s cannot be read from the API server: %w", name, o.drivers.err)
	}
	return csivolume.Driver{}, fmt.Errorf("CSIDriver %s: %w", name, errNotResponded)
}

// updateDrivers begins to watch the drivers if pods use any, and ends it if none does; mu is held.
func (o *Objects) updateDrivers(ctx context.Context, wg *sync.WaitGroup, a *Adapter, used bool) {
	switch {
	case used && o.drivers.stop == nil:
		o.drivers = o.startDrivers(ctx, wg, a)
	case !used && o.drivers.stop != nil:
		o.drivers.stop()
		o.drivers = &csiDrivers{}
	}
}

// startDrivers begins to watch the objects of all drivers.
func (o *Objects) startDrivers(ctx context.Context, wg *sync.WaitGroup, a *Adapter) *csiDrivers {
	d := &csiDrivers{}
	ctx, d.stop = context.WithCancel(ctx)
	w := newReflector[*storagev1.CSIDriver](a.client.storage, "csidrivers", "", a.connection, nil)
	w.gate = o.lists
	w.reduce = func(found *storagev1.CSIDriver) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{Spec: found.Spec, ObjectMeta: metav1.ObjectMeta{
			Name: found.Name, UID: found.UID, ResourceVersion: found.ResourceVersion}}
	}
	w.onRefusal = func(err error, failures int) { o.setDriversRefusal(d, err, failures) }
	w.notify = func() {
		if all, synced := w.Objects(); synced {
			o.setDrivers(d, all)
		}
	}
	wg.Go(func() { w.Run(ctx) })
	return d
}

// setDrivers takes the objects of all drivers.
func (o *Objects) setDrivers(d *csiDrivers, all map[string]*storagev1.CSIDriver) {
	known := make(map[string]csiDriver, len(all))
	for _, found := range all {
		known[found.Name] = csiDriver{driverOptions(found), string(found.UID) + "-" + found.ResourceVersion}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	same := d.known != nil && d.err == nil && maps.EqualFunc(d.known, known,
		func(a, b csiDriver) bool { return a.revision == b.revision })
	if same {
		return
	}
	d.known, d.err = known, nil
	o.subscribers.Notify()
	o.changed.Notify() // pods may need attachments and tokens now
}

func (o *Objects) setDriversRefusal(d *csiDrivers, err error, failures int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if failures < toleratedRefusals || d.err != nil && d.err.Error() == err.Error() {
		return
	}
	d.err = err
	o.subscribers.Notify()
}

// driverOptions returns what an object reports, and the API's defaults for what it does not say.
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
