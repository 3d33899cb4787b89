package manifest

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// checkpointVersion is that of the layout below. A file with a greater one is
// not read.
const checkpointVersion = 1

// checkpointState is the checkpoint file.
type checkpointState struct {
	Version int                     `json:"version"`
	Sources map[Source]sourceRecord `json:"sources"`
	// Claims by namespace/name of the pod.
	Claims map[string]claim `json:"claims"`
	// ObjectOwners tells which unit's object is in effect, by its reference.
	ObjectOwners map[string]objectOwner `json:"objectOwners,omitempty"`
	// RevisionKey is the key of the objects' revisions; empty until
	// there is an object.
	RevisionKey string `json:"revisionKey,omitempty"`
	// Lost says that an earlier checkpoint could not be used.
	Lost bool `json:"lost,omitempty"`
}

// sourceRecord is one source. Units by name.
type sourceRecord struct {
	Directory directoryIdentity     `json:"folder,omitzero"`
	Units     map[string]unitRecord `json:"units"`
	// Whole says that there was a whole set since the checkpoint was lost.
	Whole bool `json:"whole,omitempty"`
}

// unitRecord is one unit: the revision in effect, and the one before it that
// was Ready.
type unitRecord struct {
	unitRevision
	Previous *unitRevision `json:"previous,omitempty"`
}

// unitRevision is one accepted content of a unit.
type unitRevision struct {
	Digest    string     `json:"digest"`
	Documents []Document `json:"documents"`
	Objects   []Object   `json:"objects,omitempty"`
	// Warnings are faults that do not hold the unit back: the unit is not
	// judged again, but what was wrong with it still is.
	Warnings Faults `json:"warnings,omitempty"`
	// Ready are the pods that were Ready with this revision.
	Ready []types.UID `json:"ready,omitempty"`
}

func newCheckpointState() checkpointState {
	return checkpointState{Version: checkpointVersion, Sources: map[Source]sourceRecord{}, Claims: map[string]claim{}}
}

func (r *unitRevision) unit(name string) Unit {
	return Unit{Name: name, Digest: r.Digest, Content: Content{Documents: r.Documents, Objects: r.Objects}, Faults: r.Warnings}
}

// wasReady reports whether every pod of the revision was Ready at some time.
func (r *unitRevision) wasReady() bool {
	for i := range r.Documents {
		if !slices.Contains(r.Ready, r.Documents[i].Pod.UID) {
			return false
		}
	}
	return len(r.Documents) > 0
}

// sameDocuments reports whether both revisions mean the same pods, whatever
// their bytes.
func (r *unitRevision) sameDocuments(documents []Document) bool {
	return slices.EqualFunc(r.Documents, documents, sameDocument)
}

func sameObject(a, b Object) bool { return a.Digest == b.Digest && a.Ref() == b.Ref() }

func sameDocument(a, b Document) bool {
	return a.Digest == b.Digest && a.Pod.UID == b.Pod.UID &&
		a.Pod.Annotations[podinfo.AnnotationHash] == b.Pod.Annotations[podinfo.AnnotationHash]
}

// find is the pod that was made of a document with that digest, nil if none
// was. The revisions in effect come first.
func (s *checkpointState) find(source Source, digest string) *v1.Pod {
	var before *v1.Pod
	for _, record := range s.Sources[source].Units {
		if pod := findDocument(record.Documents, digest); pod != nil {
			return pod
		}
		if record.Previous != nil && before == nil {
			before = findDocument(record.Previous.Documents, digest)
		}
	}
	return before
}

func findDocument(documents []Document, digest string) *v1.Pod {
	for i := range documents {
		if documents[i].Digest == digest {
			return documents[i].Pod
		}
	}
	return nil
}

// markReady reports whether that was news.
func (s *checkpointState) markReady(uid types.UID) bool {
	news := false
	for _, source := range s.Sources {
		for name, record := range source.Units {
			has := slices.ContainsFunc(record.Documents, func(d Document) bool { return d.Pod.UID == uid })
			if !has || slices.Contains(record.Ready, uid) {
				continue
			}
			record.Ready = append(slices.Clip(record.Ready), uid)
			source.Units[name] = record
			news = true
		}
	}
	return news
}

// accept reports whether it changed anything.
func (s *checkpointState) accept(source Source, units []Unit, whole bool) bool {
	record := s.Sources[source]
	if record.Units == nil {
		record.Units = map[string]unitRecord{}
	}
	changed := false
	named := map[string]bool{}
	for i := range units {
		unit := &units[i]
		if unit.Digest == "" {
			continue // never accepted
		}
		named[unit.Name] = true
		if before, ok := record.Units[unit.Name]; !ok || !before.matches(unit) {
			record.Units[unit.Name] = before.next(unit)
			changed = true
		}
	}
	if whole && s.Lost && !record.Whole {
		record.Whole, changed = true, true
	}
	if whole {
		before := len(record.Units)
		maps.DeleteFunc(record.Units, func(name string, _ unitRecord) bool { return !named[name] })
		changed = changed || len(record.Units) != before
	}
	s.Sources[source] = record
	return changed
}

// is reports whether the unit is the revision in effect. What faults it has is
// not asked if it is held back: those are of another revision.
func (r *unitRecord) matches(unit *Unit) bool {
	return r.Digest == unit.Digest && r.sameDocuments(unit.Documents) &&
		(unit.Faults.Fatal() || slices.Equal(r.Warnings, unit.Faults))
}

// followedBy is the record after the unit got a new revision.
func (r *unitRecord) next(unit *Unit) unitRecord {
	next := unitRecord{Previous: r.Previous}
	next.Digest, next.Documents, next.Objects = unit.Digest, unit.Documents, unit.Objects
	if !unit.Faults.Fatal() {
		next.Warnings = unit.Faults
	}
	// A pod that did not change is as Ready as it was.
	for i := range unit.Documents {
		uid := unit.Documents[i].Pod.UID
		if slices.Contains(r.Ready, uid) && slices.ContainsFunc(r.Documents, func(d Document) bool { return sameDocument(d, unit.Documents[i]) }) {
			next.Ready = append(next.Ready, uid)
		}
	}
	if r.wasReady() && !r.sameDocuments(unit.Documents) {
		before := r.unitRevision
		next.Previous = &before
	}
	return next
}

// directoryIdentity tells whether a folder is still the one that it was. The zero
// value is no folder.
type directoryIdentity struct {
	// Device and Inode are those of stat(2). A device number does not outlast
	// a reboot.
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// Born is when it was made, in nanoseconds since 1970, since inode numbers
	// are used again; zero where the file system does not tell.
	Born int64 `json:"born,omitempty"`
	// Mounted says that a file system of its own is mounted there.
	Mounted bool `json:"mounted,omitempty"`
}
