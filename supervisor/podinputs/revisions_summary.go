package podinputs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// maxRecorded is the limit in bytes of the records of all containers of a pod. They are in
// the runtime's lists, which must not become large.
const maxRecorded = 8 << 10

// The keys of a summary. No reference is the same: it names a kind and a name.
const (
	summaryNames     = "names"
	summaryKeys      = "keys"
	summaryExisting  = "existing"
	summaryRevisions = "revisions"
)

// summary returns hashes in place of a record that is too large to be stored. A daemon that
// does not know it finds none of the pod's references there, and so no change.
func (r objectRevisions) summary() objectRevisions {
	var names, keys, existing, revisions []string
	for _, name := range slices.Sorted(maps.Keys(r)) {
		names = append(names, name)
		revisions = append(revisions, r[name])
		if r[name] == "" {
			continue
		}
		existing = append(existing, name)
		// Revisions with different keys cannot be compared, see manifest.RevisionChanged.
		if key, _, _ := strings.Cut(r[name], "-"); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return objectRevisions{
		summaryNames: hashOf(names), summaryKeys: hashOf(keys),
		summaryExisting: hashOf(existing), summaryRevisions: hashOf(revisions),
	}
}

// hashOf returns a hash of texts without newlines, empty for none.
func hashOf(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n")))
	return hex.EncodeToString(sum[:16])
}

// changedSinceSummary is changedSince for a record that is a summary. Which object changed is
// not known. If some have been removed, neither is whether others changed; then none counts
// as changed.
func (r *Resolver) changedSinceSummary(pod *v1.Pod, c *cri.Container, before objectRevisions) string {
	spec := podinfo.FindContainer(&pod.Spec, c.Name)
	if spec == nil {
		return ""
	}
	objects := r.objectsOf(pod)
	revisions := objectRevisions{}
	missing := false
	for _, ref := range manifest.ContainerReferences(pod, spec) {
		revision := objectRevision(objects, ref)
		revisions[ref.String()] = revision
		missing = missing || revision == ""
	}
	now := revisions.summary()
	switch {
	case before[summaryNames] != now[summaryNames],
		before[summaryKeys] != now[summaryKeys] && before[summaryKeys] != "",
		before[summaryExisting] != now[summaryExisting] && missing,
		before[summaryRevisions] == now[summaryRevisions]:
		return ""
	}
	return fmt.Sprintf("version of its %d objects", len(revisions))
}
