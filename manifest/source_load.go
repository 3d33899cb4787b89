package manifest

import (
	"fmt"
	"slices"
)

// UnitLoader decodes the bytes of a unit. *Loader implements it.
type UnitLoader interface {
	Load(req LoadRequest) (Content, Faults)
}

// Deliverer takes the full set of a source. *PodConfig implements it.
type Deliverer interface {
	Deliver(set Set)
}

// unitReader turns bytes, or their absence, into units by the rule that the
// last good revision stays in effect.
type unitReader struct {
	source     Source
	node       string
	loader     UnitLoader
	checkpoint *Checkpoint
	// keys verify the signatures of bytes; nil accepts what is not signed.
	keys Verifier
	// hadGood are the units that had a good revision in this run of the daemon.
	hadGood map[string]bool
}

// read returns the unit with these bytes. Bytes that are in effect already are
// not validated again: nothing has changed, and a newer version may validate
// differently.
func (r *unitReader) read(name string, data []byte) Unit {
	digest := Digest(data)
	accepted, ok := r.checkpoint.accepted(r.source, name)
	if ok && accepted.Digest == digest && r.isOfNode(accepted) {
		r.hadGood[name] = true
		return accepted
	}
	content, faults := r.loader.Load(LoadRequest{
		Source: r.source,
		Unit:   name,
		Data:   data,
		Known:  r.checkpoint.known(r.source, r.node),
	})
	if fault := checkRevision(name, &accepted.Content, &content); fault != nil {
		faults = append(faults, *fault)
	}
	if faults.Fatal() {
		return r.lastGood(name, faults)
	}
	r.hadGood[name] = true
	return Unit{Name: name, Digest: digest, Content: content, Faults: faults}
}

func (r *unitReader) isOfNode(unit Unit) bool {
	return !slices.ContainsFunc(unit.Documents, func(d Document) bool { return !isOfNode(d.Pod, r.node) })
}

// lastGood returns the unit in effect, with the faults of the newer bytes.
func (r *unitReader) lastGood(name string, faults Faults) Unit {
	unit, ok := r.checkpoint.accepted(r.source, name)
	unit.Name, unit.Faults = name, faults
	unit.Restored = ok && !r.hadGood[name]
	return unit
}

func (r *unitReader) forget(name string) { delete(r.hadGood, name) }

// sameUnit reports whether a set with b instead of a need not be delivered.
func sameUnit(a, b Unit) bool {
	return a.Name == b.Name && a.Digest == b.Digest && a.Revision == b.Revision && a.Restored == b.Restored &&
		a.Missing == b.Missing &&
		slices.Equal(a.Faults, b.Faults) && slices.EqualFunc(a.Documents, b.Documents, sameDocument) &&
		slices.EqualFunc(a.Objects, b.Objects, sameObject)
}

func tooLargeFault(unit string) Fault {
	return Fault{
		Unit:    unit,
		Problem: fmt.Sprintf("is larger than %d MiB", MaxUnitSize>>20),
		Remedy:  "split it into several files",
	}
}
