package podorder

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/podworkers"
)

// Config configures an Order. None of the functions may block or call back.
type Config struct {
	// Node is the name of the node, with which the names of static pods end.
	Node string
	// Status returns the published status of a pod, nil if there is none.
	Status func(types.UID) *v1.PodStatus
	// Runs reports whether the present run of a pod has begun and is not ending.
	Runs func(types.UID) bool
	// Complete reports whether all sources have delivered their pods.
	Complete func() bool
	// Terminating returns the pods that are terminating and may run.
	Terminating func() []podworkers.View
	// Notify makes the worker of a pod sync again.
	Notify func(types.UID)
	// NotifyPreviews makes the owner of the revisions that Preview blocked ask again; may
	// be nil.
	NotifyPreviews func()
}

// Order knows the desired static pods and what they depend on, and who waits for whom.
// New makes one.
type Order struct {
	cfg Config

	// together is held while several pods are ended by one decision: none of them is
	// stopped before all are terminating.
	together sync.Mutex

	mu sync.Mutex
	// pods are the desired static pods by name.
	pods map[string]orderedPod
	// starting wait for the start of others, ending for their end: the latter by
	// their own names.
	starting, ending waits
	// previews are the dependencies of the pods that Preview blocked, by the pods' names,
	// until their owner is notified.
	previews map[string][]string
	// stopping is since when terminating pods are being stopped. asks is when those that
	// wait ask again: the time of a notification, or the latest one.
	stopping, asks map[types.UID]time.Time
	// parsed is what the annotations of the terminating pods say.
	parsed map[types.UID]parsedPod
}

// parsedPod is a terminating pod with its name and dependencies.
type parsedPod struct {
	pod       *v1.Pod
	name      string
	dependsOn []string
}

// orderedPod is a desired static pod.
type orderedPod struct {
	uid       types.UID
	dependsOn []string
}

// New returns an Order without pods.
func New(cfg Config) *Order {
	return &Order{cfg: cfg, pods: map[string]orderedPod{}, previews: map[string][]string{},
		stopping: map[types.UID]time.Time{}, asks: map[types.UID]time.Time{}, parsed: map[types.UID]parsedPod{}}
}

// name returns the name of a static pod in its manifest, as namespace/name.
func (o *Order) name(pod *v1.Pod) string {
	return pod.Namespace + "/" + strings.TrimSuffix(pod.Name, "-"+strings.ToLower(o.cfg.Node))
}

// dependsOn returns the dependencies of a pod by name. What could not be read of an
// orphan counts as none.
func dependsOn(pod *v1.Pod) []string {
	names, err := podinfo.DependsOn(pod)
	if err != nil {
		return nil
	}
	return names
}

// Update takes a desired pod. It comes before the pod's worker is notified.
func (o *Order) Update(pod *v1.Pod) {
	if !podinfo.PolicyOf(pod).Static {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	name, now := o.name(pod), orderedPod{uid: pod.UID, dependsOn: dependsOn(pod)}
	before, known := o.pods[name]
	o.pods[name] = now
	if !known || before.uid != now.uid || !slices.Equal(before.dependsOn, now.dependsOn) {
		o.notifyStarting()
	}
}

// Remove takes a pod away that its source no longer has.
func (o *Order) Remove(pod *v1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.starting.set(pod.UID)
	if name := o.name(pod); o.pods[name].uid == pod.UID {
		delete(o.previews, name)
		delete(o.pods, name)
		o.notifyStarting()
	}
}

// Replaced takes a pod away whose successor, a static pod, is put next. Until then the
// others know it as a pod that is not Ready, and not as one that no manifest declares.
func (o *Order) Replaced(pod *v1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.starting.set(pod.UID)
}

// Delivered notifies the pods that wait to start that a source has delivered.
func (o *Order) Delivered() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.notifyStarting()
}

// notifyStarting notifies all pods that wait to start. mu is held.
func (o *Order) notifyStarting() {
	for uid := range o.starting.byUID {
		o.cfg.Notify(uid)
	}
	o.notifyPreviews(len(o.previews) > 0)
}

// notifyPreviews has the blocked revisions previewed again, if something changed for one
// of them. mu is held.
func (o *Order) notifyPreviews(changed bool) {
	if changed && o.cfg.NotifyPreviews != nil {
		clear(o.previews)
		o.cfg.NotifyPreviews()
	}
}

// Published notifies the pods that wait to start until the given pod is Ready. It comes
// after a status of the pod was published.
func (o *Order) Published(pod *v1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.starting.byUID) == 0 && len(o.previews) == 0 {
		return
	}
	name := o.name(pod)
	for uid := range o.starting.byName[name] {
		o.cfg.Notify(uid)
	}
	awaited := false
	for _, names := range o.previews {
		awaited = awaited || slices.Contains(names, name)
	}
	o.notifyPreviews(awaited)
}

// StartBlock returns why a pod that is about to start has to wait, nil if it may start.
// A pod that waits is notified when that may have changed.
func (o *Order) StartBlock(pod *v1.Pod) *Block {
	names := dependsOn(pod)
	if len(names) == 0 {
		return nil
	}
	dependencies, way := o.awaitStart(pod, names)
	if way != nil {
		return cycleBlock(way)
	}
	for i := range dependencies {
		d := &dependencies[i]
		if d.known {
			d.status, d.runs = o.cfg.Status(d.uid), o.cfg.Runs(d.uid)
		}
	}
	block := startBlock(dependencies, o.cfg.Complete())
	if block == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.starting.set(pod.UID)
		return nil
	}
	if hint := o.suffixHint(names); hint != "" && block.Reason == ReasonNotFound {
		block.Message += hint
		block.Event += hint
	}
	return block
}

// Preview returns why a pod that is not desired yet would have to wait if it replaced the
// pod of its name now, nil if it would not. Config.NotifyPreviews is called once when that may
// have changed.
func (o *Order) Preview(pod *v1.Pod) *Block {
	names := dependsOn(pod)
	self := o.name(pod)
	if len(names) == 0 {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.previews, self)
		return nil
	}
	o.mu.Lock()
	o.previews[self] = names // before any of them is looked at, so that no change is missed
	way := podinfo.DependencyCycle(self, func(name string) []string {
		if name == self {
			return names
		}
		return o.pods[name].dependsOn
	})
	var dependencies []dependency
	for _, name := range names {
		known, ok := o.pods[name]
		dependencies = append(dependencies, dependency{name: name, known: ok, uid: known.uid})
	}
	o.mu.Unlock()
	if way != nil {
		return cycleBlock(way)
	}
	for i := range dependencies {
		if d := &dependencies[i]; d.known {
			d.status, d.runs = o.cfg.Status(d.uid), o.cfg.Runs(d.uid)
		}
	}
	block := startBlock(dependencies, o.cfg.Complete())
	switch {
	case block == nil:
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.previews, self)
	case block.Reason == ReasonNotFound:
		block.Message += o.suffixHint(names)
	}
	return block
}

// awaitStart makes changes of the dependencies notify the pod, before any of them is
// looked at, so that none is missed. It returns the dependencies, or the way on which
// the pod depends on itself.
func (o *Order) awaitStart(pod *v1.Pod, names []string) (dependencies []dependency, way []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.starting.set(pod.UID, names...)
	way = podinfo.DependencyCycle(o.name(pod), func(name string) []string { return o.pods[name].dependsOn })
	for _, name := range names {
		known, ok := o.pods[name]
		dependencies = append(dependencies, dependency{name: name, known: ok, uid: known.uid})
	}
	return dependencies, way
}

// suffixHint returns what is wrong with a name that is not that of a manifest but that
// of its pod.
func (o *Order) suffixHint(names []string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range names {
		if _, known := o.pods[name]; known {
			continue
		}
		if base, ok := strings.CutSuffix(name, "-"+strings.ToLower(o.cfg.Node)); ok && o.pods[base].uid != "" {
			return fmt.Sprintf(", which names pods as their manifests do: %s instead of %s", base, name)
		}
	}
	return ""
}

// Together ends several pods by one decision: end tells all their workers.
func (o *Order) Together(end func()) {
	o.together.Lock()
	defer o.together.Unlock()
	end()
}

// ShutdownBegun notifies the pods that wait to be stopped: they have less time.
func (o *Order) ShutdownBegun() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for uid := range o.ending.byUID {
		o.notifyEnding(uid)
	}
}

// EndBlock returns the pods, by name, that have to terminate before the given pod is
// stopped, none if it may be stopped now, and when to ask again at the latest. latest
// is when it is stopped in any case; the zero time is never. A pod that waits is
// notified when one of them has terminated.
//
// The wait is bounded by the grace periods of the others.
func (o *Order) EndBlock(pod *v1.Pod, latest time.Time) (names []string, again time.Time) {
	o.together.Lock()
	defer o.together.Unlock()
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.stopping[pod.UID].IsZero() {
		return nil, time.Time{}
	}
	self := o.endingPod(podworkers.View{Pod: pod})
	if latest.IsZero() || now.Before(latest) {
		o.ending.set(pod.UID, self.name)
		var all []endingPod
		terminating := map[types.UID]bool{pod.UID: true}
		for _, view := range o.cfg.Terminating() {
			if podinfo.PolicyOf(view.Pod).Static {
				all = append(all, o.endingPod(view))
				terminating[view.Pod.UID] = true
			}
		}
		maps.DeleteFunc(o.parsed, func(uid types.UID, _ parsedPod) bool { return !terminating[uid] })
		names, again = endBlock(&self, all, now)
	}
	if len(names) > 0 {
		slices.Sort(names)
		if !latest.IsZero() && latest.Before(again) {
			again = latest
		}
		o.asks[pod.UID] = again
		return names, again
	}
	// From now on the end of this pod is bounded by its own grace period.
	o.stopping[pod.UID] = now
	delete(o.asks, pod.UID)
	o.ending.set(pod.UID)
	o.notifyDependencies(self.dependsOn)
	return nil, time.Time{}
}

// Stopped notifies the pods that waited for the end of the given one. It comes after
// nothing of the pod runs any more.
func (o *Order) Stopped(pod *v1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.stopping, pod.UID)
	delete(o.asks, pod.UID)
	delete(o.parsed, pod.UID)
	o.ending.set(pod.UID)
	o.starting.set(pod.UID) // a sync may have been in flight when the pod was removed
	o.notifyDependencies(dependsOn(pod))
}

// notifyDependencies notifies those of the named pods that wait to be stopped. mu is
// held.
func (o *Order) notifyDependencies(names []string) {
	for _, name := range names {
		for uid := range o.ending.byName[name] {
			o.notifyEnding(uid)
		}
	}
}

// notifyEnding notifies a pod that waits to be stopped. mu is held.
func (o *Order) notifyEnding(uid types.UID) {
	if now := time.Now(); now.Before(o.asks[uid]) {
		o.asks[uid] = now
	}
	o.cfg.Notify(uid)
}

// endingPod returns what is known of a terminating pod. mu is held.
func (o *Order) endingPod(view podworkers.View) endingPod {
	uid := view.Pod.UID
	since := view.Since
	if at := o.stopping[uid]; !at.IsZero() {
		since = at
	} else if at := o.asks[uid]; !at.IsZero() {
		since = at
	}
	parsed, ok := o.parsed[uid]
	if !ok || parsed.pod != view.Pod {
		parsed = parsedPod{pod: view.Pod, name: o.name(view.Pod), dependsOn: dependsOn(view.Pod)}
		o.parsed[uid] = parsed
	}
	return endingPod{
		uid: uid, name: parsed.name, dependsOn: parsed.dependsOn,
		until: since.Add(time.Duration(view.Grace)*time.Second + stopMargin),
	}
}
