package manifest

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// SourceView is the current state of one source.
type SourceView struct {
	Source Source `json:"source"`
	// Delivered reports that the source was read completely in this run of the
	// daemon.
	Delivered bool `json:"delivered"`
	// LastRead is when it was last read; zero if it never was.
	LastRead time.Time `json:"lastRead,omitzero"`
	// LastGood is when the source last had no rejected unit: now, unless there
	// is a fault. It is zero if that was never so in this run of the daemon.
	LastGood time.Time `json:"lastGood,omitzero"`
	// Restored reports that the source was not read completely; see Set.
	Restored bool `json:"restored,omitempty"`
	// Incomplete are the units because of which it was not; see Set.
	Incomplete []string `json:"incomplete,omitempty"`
	// Ignored are the names in its directory that are not read; see Set.
	Ignored []string `json:"ignored,omitempty"`
	// Fault is why the source as a whole cannot be read.
	Fault *Fault     `json:"fault,omitempty"`
	Units []UnitView `json:"units,omitempty"`
}

// Ready reports that the source was read in full. It also was if its pods are not all known because one
// of its units is invalid and has no last good revision.
func (v *SourceView) Ready() bool {
	return v.Delivered || (v.Fault == nil || v.Fault.Warning) && len(v.Incomplete) > 0
}

// CountFaults returns how many faults the source and its units have: those that keep a manifest from
// taking effect, and the warnings.
func (v *SourceView) CountFaults() (faults, warnings int) {
	count := func(f *Fault) {
		if f.Warning {
			warnings++
		} else {
			faults++
		}
	}
	if v.Fault != nil {
		count(v.Fault)
	}
	for i := range v.Units {
		for j := range v.Units[i].Faults {
			count(&v.Units[i].Faults[j])
		}
	}
	return faults, warnings
}

// UnitView is the current state of one file, URL body or artifact.
type UnitView struct {
	Name string `json:"name"`
	// Digest is the sha256 of the bytes in effect. It is empty if there never
	// were any, and if they contain a Secret: a weak Secret could be guessed
	// from it.
	Digest string `json:"digest,omitempty"`
	// Revision is the digest of the artifact in effect, empty if Digest is, and for other
	// sources.
	Revision string `json:"revision,omitempty"`
	// Pods are the pods in effect, in the order of the documents.
	Pods   []UnitPod `json:"pods,omitempty"`
	Faults Faults    `json:"faults,omitempty"`
	// Restored reports that what is in effect was accepted by an earlier run of
	// the daemon, and that this run cannot read the unit.
	Restored bool `json:"restored,omitempty"`
}

// UnitPod is a pod in effect.
type UnitPod struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	// Name is the name of the pod, BaseName the one in its manifest, without the node's name.
	Name     string `json:"name"`
	BaseName string `json:"baseName"`
}

// Snapshot returns the state of every registered source, in the order of
// registration.
func (c *PodConfig) Snapshot() []SourceView {
	c.mu.Lock()
	defer c.mu.Unlock()
	views := make([]SourceView, 0, len(c.sources))
	for _, source := range c.sources {
		state := c.states[source]
		view := SourceView{Source: source, Delivered: state.delivered, LastRead: state.offer.Time,
			Restored: state.offer.Restored, Incomplete: slices.Clone(state.offer.Incomplete),
			Ignored: slices.Clone(state.offer.Ignored), Fault: state.offer.Fault}
		view.LastGood = state.lastGood
		if state.good {
			view.LastGood = c.now()
		}
		for i := range state.units {
			unit := &state.units[i]
			shown := UnitView{Name: unit.Name, Digest: unit.Digest, Revision: unit.Revision, Faults: unit.Faults,
				Restored: unit.Restored}
			if slices.ContainsFunc(unit.Objects, func(o Object) bool { return o.Secret != nil }) {
				shown.Digest, shown.Revision = "", ""
			}
			for _, document := range unit.Documents {
				pod := document.Pod
				shown.Pods = append(shown.Pods,
					UnitPod{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, BaseName: baseName(pod, source)})
			}
			view.Units = append(view.Units, shown)
		}
		views = append(views, view)
	}
	return views
}

// updateLastGood records which sources have no fault now. A source without a
// fault until now was good until now. mu is held.
func (c *PodConfig) updateLastGood() {
	for _, state := range c.states {
		if state.good {
			state.lastGood = c.now()
		}
		held := func(f Fault) bool { return !f.Warning }
		state.good = state.delivered && (state.offer.Fault == nil || state.offer.Fault.Warning) &&
			!slices.ContainsFunc(state.units, func(u Unit) bool {
				return slices.ContainsFunc(u.Faults, held)
			})
		if state.good {
			state.lastGood = c.now()
		}
	}
}

// Faults returns all current faults in the order of the sources: the fault of a
// source as a whole before those of its units, and that of the checkpoint last.
func (c *PodConfig) Faults() []Fault {
	var faults []Fault
	for _, view := range c.Snapshot() {
		if view.Fault != nil {
			faults = append(faults, *view.Fault)
		}
		for _, unit := range view.Units {
			faults = append(faults, unit.Faults...)
		}
	}
	if fault := c.checkpoint.Fault(); fault != nil {
		faults = append(faults, *fault)
	}
	return faults
}

// FaultFor returns why a running pod may differ from its manifest: the faults
// of its unit, or of its source as a whole. It is empty if there are none, and
// for an unknown UID.
func (c *PodConfig) FaultFor(uid types.UID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.podFaults[uid]
}

// WasRead reports whether the manifest in effect of a pod was read in this run of the
// daemon: its source may not be complete, because another unit could not be read.
func (c *PodConfig) WasRead(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, state := range c.states {
		if state.pods[uid] == nil {
			continue
		}
		for i := range state.units {
			if unit := &state.units[i]; !unit.Restored &&
				slices.ContainsFunc(unit.Documents, func(d Document) bool { return d.Pod.UID == uid }) {
				return true
			}
		}
	}
	return false
}

// Subscribe returns a channel that is notified (capacity 1, coalescing) after
// the snapshot changed, including faults, and a function that ends the
// subscription.
func (c *PodConfig) Subscribe() (<-chan struct{}, func()) { return c.subscribers.Subscribe() }

// refreshFaults computes the fault of each pod, and logs faults once until they
// change.
func (c *PodConfig) refreshFaults() {
	faulted := map[types.UID]string{}
	logged := map[string]string{}
	for _, source := range c.sources {
		state := c.states[source]
		whole := ""
		if fault := state.offer.Fault; fault != nil {
			c.logFaults(logged, "source", string(source), Faults{*fault})
			if !fault.Warning {
				whole = fault.Error()
			}
		}
		for i := range state.units {
			unit := &state.units[i]
			c.logFaults(logged, "manifest", unit.Name, unit.Faults)
			if text := joinFaults(whole, fatalFaults(unit.Faults)); text != "" {
				for _, document := range unit.Documents {
					faulted[document.Pod.UID] = text
				}
			}
		}
	}
	for about := range c.loggedFaults {
		if _, still := logged[about]; !still {
			kind := "manifest"
			if c.states[Source(about)] != nil {
				kind = "source"
			}
			c.log.Info("Manifest fault resolved", kind, about)
		}
	}
	c.podFaults, c.loggedFaults = faulted, logged
}

// logIncomplete logs once which units keep a source from being complete.
func (c *PodConfig) logIncomplete(before, set *Set) {
	for _, name := range set.Incomplete {
		if !slices.Contains(before.Incomplete, name) {
			c.log.Warn("Manifest source is incomplete because a manifest is invalid, cleanup is suspended until it is valid",
				"source", set.Source, "manifest", name)
		}
	}
}

// logFaults logs the new faults of the unit or source of that name, one line
// each.
func (c *PodConfig) logFaults(logged map[string]string, kind, about string, faults Faults) {
	if len(faults) == 0 {
		return
	}
	text := faults.Error()
	logged[about] = text
	if c.loggedFaults[about] == text {
		return
	}
	before := strings.Split(c.loggedFaults[about], "\n")
	for _, fault := range faults {
		line := fault.Error()
		switch {
		case slices.Contains(before, line):
		case fault.Warning:
			c.log.Warn(line, kind, about)
		default:
			c.log.Error(line, kind, about)
		}
	}
}

func fatalFaults(faults Faults) Faults {
	return slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool { return f.Warning })
}

func joinFaults(whole string, faults Faults) string {
	if whole == "" {
		return faults.Error()
	}
	if len(faults) == 0 {
		return whole
	}
	return whole + "\n" + faults.Error()
}
