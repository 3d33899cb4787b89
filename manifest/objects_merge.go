package manifest

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// objectOwner is the unit whose object of a name is in effect. It is kept
// across restarts, so that the first of two files keeps its precedence.
type objectOwner struct {
	Source Source `json:"source"`
	Unit   string `json:"unit"`
}

// offeredObject is an object of a unit in effect. index is the index of the
// unit in the state of its source, -1 if that has none yet.
type offeredObject struct {
	object  *Object
	owner   objectOwner
	index   int
	missing bool
	rank    int
}

// mergeObjects computes which objects are in effect. Of two objects with one
// name, that of a file takes precedence over that of a URL, and within a source
// the first one takes precedence. The other unit gets a fault unless both
// objects are equal; its pods use the object that is in effect.
func (c *PodConfig) mergeObjects() {
	before := c.checkpoint.objectOwners()
	offered := map[ObjectRef][]offeredObject{}
	for rank, source := range c.claimOrder() {
		for _, offer := range c.offeredObjects(source) {
			ref := offer.object.Ref()
			offer.rank = 2 * rank
			if before[ref.String()] != offer.owner {
				offer.rank++
			}
			offered[ref] = append(offered[ref], offer)
		}
	}
	entries := make(map[ObjectRef]*objectEntry, len(offered))
	owners := make(map[string]objectOwner, len(offered))
	for ref, offers := range offered {
		slices.SortStableFunc(offers, func(a, b offeredObject) int {
			if a.missing != b.missing {
				if b.missing {
					return -1
				}
				return 1
			}
			return cmp.Compare(a.rank, b.rank)
		})
		winner := offers[0]
		entries[ref] = c.objectEntry(ref, winner)
		owners[ref.String()] = winner.owner
		for _, loser := range offers[1:] {
			c.reportObjectConflict(ref, winner, loser)
		}
	}
	if !maps.Equal(before, owners) {
		c.checkpoint.setObjectOwners(owners)
	}
	c.objects.replace(entries)
}

// offeredObjects returns the objects of one source. Until the source reports,
// the objects that were last accepted from it remain in effect, since a pod of
// another source may refer to them.
func (c *PodConfig) offeredObjects(source Source) []offeredObject {
	state := c.states[source]
	if !isStatic(source) {
		return nil
	}
	units, index := state.units, 0
	if !state.reported {
		units, index = c.checkpoint.units(source), -1
	}
	var offers []offeredObject
	for i := range units {
		for k := range units[i].Objects {
			at := i
			if index < 0 {
				at = index
			}
			offers = append(offers, offeredObject{
				object: &units[i].Objects[k], owner: objectOwner{source, units[i].Name}, index: at, missing: units[i].Missing,
			})
		}
	}
	return offers
}

// reportObjectConflict adds a fault to the unit whose object is not in effect.
func (c *PodConfig) reportObjectConflict(ref ObjectRef, winner, loser offeredObject) {
	if loser.missing || loser.index < 0 || loser.object.Digest == winner.object.Digest {
		return
	}
	unit := &c.states[loser.owner.Source].units[loser.index]
	unit.Faults = append(slices.Clip(unit.Faults), Fault{
		Unit:    unit.Name,
		Object:  ref.String(),
		Path:    "metadata.name",
		Problem: fmt.Sprintf("%s is declared with different contents in %s, which remains in effect", ref, winner.owner.Unit),
		Remedy:  "give this one another name or namespace, or remove one of them",
	})
}

// objectEntry returns the entry of the object in effect; the existing one if it
// has not changed.
func (c *PodConfig) objectEntry(ref ObjectRef, offer offeredObject) *objectEntry {
	before := c.objects.inEffect()[ref]
	if before != nil && before.object.Digest == offer.object.Digest && before.owner() == offer.owner {
		return before
	}
	entry := &objectEntry{object: *offer.object, source: offer.owner.Source, unit: offer.owner.Unit}
	if before != nil && before.object.Digest == offer.object.Digest {
		entry.object, entry.revision = before.object, before.revision
		return entry
	}
	entry.revision = objectRevision(c.checkpoint.revisionKey(), offer.object)
	entry.object = entry.object.stamped(entry.revision)
	return entry
}

func (e *objectEntry) owner() objectOwner { return objectOwner{e.source, e.unit} }

// objectRevision returns a keyed hash of the object's content: without the key,
// which only the checkpoint has, the content of a Secret cannot be guessed by
// trial. The prefix identifies the key, since revisions with different keys
// cannot be compared.
func objectRevision(key string, object *Object) string {
	bare := object.stamped("")
	kind, meta := bare.content()
	meta.SetLabels(nil)
	meta.SetAnnotations(nil)
	if bare.ConfigMap != nil {
		bare.ConfigMap.Immutable = nil
	}
	if bare.Secret != nil {
		bare.Secret.Immutable = nil
	}
	text, err := json.Marshal(meta)
	if err != nil {
		panic("manifest: an object that was decoded does not encode: " + err.Error())
	}
	hash := hmac.New(sha256.New, []byte(key))
	_, _ = hash.Write([]byte(kind + "\n"))
	_, _ = hash.Write(text)
	id := sha256.Sum256([]byte("id of " + key))
	return hex.EncodeToString(id[:4]) + "-" + hex.EncodeToString(hash.Sum(nil)[:8])
}

// RevisionChanged reports whether an object is known to have other content than
// at an earlier revision; empty means that it did not exist. Revisions made
// with different keys cannot be compared.
func RevisionChanged(before, now string) bool {
	keyBefore, _, _ := strings.Cut(before, "-")
	keyNow, _, _ := strings.Cut(now, "-")
	return before != now && (before == "" || now == "" || keyBefore == keyNow)
}

// stamped returns a copy of the object with that resourceVersion. It shares
// everything except the metadata.
func (o Object) stamped(revision string) Object {
	kind, _ := o.content()
	kindNamed(kind).copy(&o)
	_, copied := o.content()
	copied.SetResourceVersion(revision)
	return o
}
