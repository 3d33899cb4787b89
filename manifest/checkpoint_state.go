package manifest

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// checkpointVersion is the version of the layout below.
const checkpointVersion = 1

// checkpointState is the content of the checkpoint file.
type checkpointState struct {
	Version int                     `json:"version"`
	Sources map[Source]sourceRecord `json:"sources"`
	// Claims are keyed by the namespace/name of the pod.
	Claims map[string]claim `json:"claims"`
	// ObjectOwners holds the unit whose object is in effect, by object
	// reference.
	ObjectOwners map[string]objectOwner `json:"objectOwners,omitempty"`
	// RevisionKey is the key for the revisions of objects; empty until there is
	// an object.
	RevisionKey string `json:"revisionKey,omitempty"`
	// Lost reports that an earlier checkpoint could not be used.
	Lost bool `json:"lost,omitempty"`
}

// sourceRecord is the state of one source. Units are keyed by name.
type sourceRecord struct {
	Directory directoryIdentity     `json:"folder,omitzero"`
	Units     map[string]unitRecord `json:"units"`
	// Whole reports that there was a complete set since the checkpoint was
	// lost.
	Whole bool `json:"whole,omitempty"`
}

// unitRecord is one unit: the revision in effect, and the previous revision
// that was Ready.
type unitRecord struct {
	unitRevision
	Previous *unitRevision `json:"previous,omitempty"`
}

// unitRevision is one accepted content of a unit.
type unitRevision struct {
	Digest string `json:"digest"`
	// Revision is the digest of the artifact; empty for other sources.
	Revision  string     `json:"revision,omitempty"`
	Documents []Document `json:"documents"`
	Objects   []Object   `json:"objects,omitempty"`
	// Warnings are faults that do not reject the unit. They are stored because
	// the unit is not validated again.
	Warnings Faults `json:"warnings,omitempty"`
	// Ready are the UIDs of the pods that were Ready with this revision.
	Ready []types.UID `json:"ready,omitempty"`
}

func newCheckpointState() checkpointState {
	return checkpointState{Version: checkpointVersion, Sources: map[Source]sourceRecord{}, Claims: map[string]claim{}}
}

// clone returns a copy that no change of s changes: revisions, claims and owners are replaced, never written to.
func (s *checkpointState) clone() checkpointState {
	c := *s
	c.Sources = maps.Clone(s.Sources)
	for source, record := range c.Sources {
		record.Units = maps.Clone(record.Units)
		c.Sources[source] = record
	}
	return c
}

func (r *unitRevision) unit(name string) Unit {
	return Unit{Name: name, Digest: r.Digest, Revision: r.Revision,
		Content: Content{Documents: r.Documents, Objects: r.Objects}, Faults: r.Warnings}
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

// sameDocuments reports whether both revisions declare the same pods, even if
// their bytes differ.
func (r *unitRevision) sameDocuments(documents []Document) bool {
	return slices.EqualFunc(r.Documents, documents, sameDocument)
}

func sameObject(a, b Object) bool { return a.Digest == b.Digest && a.Ref() == b.Ref() }

func sameDocument(a, b Document) bool {
	return a.Digest == b.Digest && a.Pod.UID == b.Pod.UID &&
		a.Pod.Annotations[podinfo.AnnotationHash] == b.Pod.Annotations[podinfo.AnnotationHash]
}

// find returns the pod made from the document with that digest, nil if there is
// none. It searches the revisions in effect first.
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

// markReady reports whether it changed anything.
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

// matches reports whether the unit is the revision in effect. The faults of a
// rejected unit are not compared, since they belong to another revision.
func (r *unitRecord) matches(unit *Unit) bool {
	return r.Digest == unit.Digest && r.Revision == unit.Revision && r.sameDocuments(unit.Documents) &&
		(unit.Faults.Fatal() || slices.Equal(r.Warnings, unit.Faults))
}

// next returns the record after the unit got a new revision.
func (r *unitRecord) next(unit *Unit) unitRecord {
	next := unitRecord{Previous: r.Previous}
	next.Digest, next.Revision, next.Documents, next.Objects = unit.Digest, unit.Revision, unit.Documents, unit.Objects
	if !unit.Faults.Fatal() {
		next.Warnings = unit.Faults
	}
	// A pod that did not change is as Ready as it was.
	for i := range unit.Documents {
		uid := unit.Documents[i].Pod.UID
		if slices.Contains(r.Ready, uid) &&
			slices.ContainsFunc(r.Documents, func(d Document) bool { return sameDocument(d, unit.Documents[i]) }) {
			next.Ready = append(next.Ready, uid)
		}
	}
	if r.wasReady() && !r.sameDocuments(unit.Documents) {
		before := r.unitRevision
		next.Previous = &before
	}
	return next
}

// directoryIdentity identifies a directory, to detect that it was replaced. The
// zero value is no directory.
type directoryIdentity struct {
	// Device and Inode are those of stat(2). A device number can change at a
	// reboot.
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// Born is the creation time in nanoseconds since 1970, since inode numbers
	// are reused; zero if the file system does not report it.
	Born int64 `json:"born,omitempty"`
	// Mounted reports that the directory is a mount point.
	Mounted bool `json:"mounted,omitempty"`
}
