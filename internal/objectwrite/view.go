package objectwrite

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/objectpatch"
)

// View is what clients see of an object in addition to what its manifest declares.
type View struct {
	// Name is the one of the request. DeclaredName is the one in the manifest and FullName the one in the API, which
	// differ for a pod; FullName is empty if the API does not show the object.
	Name, DeclaredName, FullName string
	// Namespace is empty for an object without one.
	Namespace string
	// UID and ResourceVersion are empty, and Created, Status and Ephemeral nil, if the API does not show the object.
	UID, ResourceVersion       string
	Created, Status, Ephemeral any
	// Since and Until are the first and the last resource version of the revision that the manifest declares.
	Since, Until uint64
	// BoundField is the field of the spec that binding has set, and BoundValue its value; empty for none.
	BoundField string
	BoundValue any
	// Digest is that of the manifest's object when the client was shown it: a client that names the version it has seen
	// changes no other one.
	Digest string
}

// Show returns a declared object as clients see it.
func (v *View) Show(d *Declared) map[string]any {
	shown := maps.Clone(d.Object)
	metadata := child(shown, "metadata")
	metadata["name"] = v.Name
	if v.FullName != "" {
		metadata["resourceVersion"], metadata["uid"] = v.ResourceVersion, v.UID
		if v.Created != nil {
			metadata["creationTimestamp"] = v.Created
		}
		if v.Status != nil {
			shown["status"] = v.Status
		}
	}
	shown["metadata"] = metadata
	if spec, ok := shown["spec"].(map[string]any); ok {
		spec = maps.Clone(spec)
		if v.Ephemeral != nil {
			spec["ephemeralContainers"] = v.Ephemeral
		}
		if v.BoundField != "" && spec[v.BoundField] == nil {
			spec[v.BoundField] = v.BoundValue
		}
		shown["spec"] = spec
	}
	SetAnnotation(shown, v1.LastAppliedConfigAnnotation, v.lastApplied(d.Document))
	return shown
}

// lastApplied returns the annotation in which kubectl apply finds what it has applied. It is made
// of the document, which is what was applied last, and is not stored: in the manifest it would
// be a copy of it, would change the pod, and would reveal Secrets.
func (v *View) lastApplied(document map[string]any) string {
	applied := maps.Clone(document)
	if applied == nil {
		applied = map[string]any{}
	}
	metadata := child(applied, "metadata")
	annotations := child(metadata, "annotations")
	delete(annotations, v1.LastAppliedConfigAnnotation)
	metadata["annotations"], metadata["name"] = annotations, v.Name
	if v.Namespace != "" {
		metadata["namespace"] = v.Namespace
	}
	applied["metadata"] = metadata
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(applied); err != nil {
		return ""
	}
	return text.String()
}

// Apply applies a patch to the declared object as its client sees it, and returns what the manifest is to declare.
// applied is the annotation of kubectl apply in the patched object.
func (v *View) Apply(p *objectpatch.Patch, d *Declared) (object map[string]any, applied string, err error) {
	shown := v.Show(d)
	if object, err = p.Apply(shown); err != nil {
		return nil, "", Errorf(Invalid, "the patch cannot be applied: %w", err)
	}
	object = maps.Clone(object)
	v.dropBound(object, d.Object)
	applied = annotationOf(object, v1.LastAppliedConfigAnnotation)
	if err := v.check(p, object, shown); err != nil {
		return nil, "", err
	}
	if err := v.checkManifest(p, object, d); err != nil {
		return nil, "", err
	}
	return object, applied, v.dropEphemeral(object)
}

// ApplyLive applies a patch to the pod that runs, for its ephemeral containers, and returns the patched pod.
func (v *View) ApplyLive(p *objectpatch.Patch, live map[string]any) (map[string]any, error) {
	shown := maps.Clone(live)
	metadata := child(shown, "metadata")
	metadata["resourceVersion"], metadata["uid"] = v.ResourceVersion, v.UID
	shown["metadata"] = metadata
	object, err := p.Apply(shown)
	if err != nil {
		return nil, Errorf(Invalid, "the patch cannot be applied: %w", err)
	}
	if err := v.check(p, object, shown); err != nil {
		return nil, err
	}
	spec, _ := live["spec"].(map[string]any)
	same := reflect.DeepEqual(spec["ephemeralContainers"], v.Ephemeral)
	if version := named(p, object, "resourceVersion"); version != nil && !same {
		return nil, changedSince(version)
	}
	return object, nil
}

// dropBound removes what Show has added of a binding, so that it does not get into the manifest.
func (v *View) dropBound(object, declared map[string]any) {
	spec, _ := object["spec"].(map[string]any)
	known, _ := declared["spec"].(map[string]any)
	if v.BoundField == "" || spec == nil || known[v.BoundField] != nil {
		return
	}
	if !reflect.DeepEqual(spec[v.BoundField], v.BoundValue) {
		return
	}
	spec = maps.Clone(spec)
	delete(spec, v.BoundField)
	object["spec"] = spec
}

// dropEphemeral removes the ephemeral containers of a pod. It refuses other ones than those that the client was shown,
// and takes a pod without any for one that is not about them.
func (v *View) dropEphemeral(object map[string]any) error {
	spec, _ := object["spec"].(map[string]any)
	list, ok := spec["ephemeralContainers"]
	if !ok {
		return nil
	}
	a, _ := json.Marshal(list)
	b, _ := json.Marshal(v.Ephemeral)
	if !bytes.Equal(a, b) && string(a) != "[]" && string(a) != "null" {
		return Errorf(Invalid,
			"spec.ephemeralContainers: a manifest cannot have them; add one to the running pod with podstead debug or kubectl "+
				"debug")
	}
	spec = maps.Clone(spec)
	delete(spec, "ephemeralContainers")
	object["spec"] = spec
	return nil
}

// checkManifest checks that the manifest still has what the client has seen, if it names a version or a UID.
func (v *View) checkManifest(p *objectpatch.Patch, object map[string]any, d *Declared) error {
	version, uid := named(p, object, "resourceVersion"), named(p, object, "uid")
	switch {
	case version != nil && d.Pending:
		return Errorf(Conflict, "the manifest has changed on the disk since resourceVersion %v, and the daemon has not "+
			"read it yet; "+
			"get the object again and repeat the change", version)
	case d.Digest == v.Digest:
		return nil
	case version != nil:
		return changedSince(version)
	case uid != nil:
		return Errorf(Conflict, "the object with the uid %v was replaced meanwhile; get it again and repeat the change", uid)
	}
	return nil
}

// named returns a field of the metadata that a patch names; nil if it does not, or if the field is empty.
func named(p *objectpatch.Patch, object map[string]any, field string) any {
	metadata, _ := object["metadata"].(map[string]any)
	if !p.Names(field) || metadata[field] == "" {
		return nil
	}
	return metadata[field]
}

// check checks that a patched object is still the one that was shown, and the resource version that the client has seen
// if it names one.
func (v *View) check(p *objectpatch.Patch, object, shown map[string]any) error {
	if err := v.checkIdentity(object, shown); err != nil {
		return err
	}
	if version := named(p, object, "resourceVersion"); version != nil && !v.hasSeen(version) {
		return changedSince(version)
	}
	return nil
}

// checkIdentity checks that a changed object is still the one that was shown.
func (v *View) checkIdentity(object, shown map[string]any) error {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return Errorf(Invalid, "metadata: must be an object")
	}
	known := shown["metadata"].(map[string]any)
	for _, field := range []string{"kind", "apiVersion"} {
		if object[field] != nil && shown[field] != nil && object[field] != shown[field] {
			return Errorf(Invalid, "%s: must not change from %v to %v", field, shown[field], object[field])
		}
	}
	name := metadata["name"]
	if name != nil && name != known["name"] && name != v.DeclaredName && (v.FullName == "" || name != v.FullName) {
		return Errorf(Invalid, "metadata.name: must not change from %v to %v", known["name"], name)
	}
	namespace := metadata["namespace"]
	if namespace != nil && namespace != "" && known["namespace"] != nil && namespace != known["namespace"] {
		return Errorf(Invalid, "metadata.namespace: must not change from %v to %v", known["namespace"], namespace)
	}
	if uid := metadata["uid"]; uid != nil && uid != "" && uid != known["uid"] {
		return Errorf(Conflict, "the object has the uid %v, not %v: it was replaced meanwhile; get it again and repeat the "+
			"change",
			orNone(known["uid"]), uid)
	}
	return nil
}

// hasSeen reports whether a resource version is one of the revision that the manifest declares.
func (v *View) hasSeen(version any) bool {
	n, err := strconv.ParseUint(fmt.Sprint(version), 10, 64)
	return v.FullName != "" && (version == v.ResourceVersion || err == nil && v.Since <= n && n <= v.Until)
}

func changedSince(version any) error {
	return Errorf(Conflict, "the object has changed since resourceVersion %v; get it again and repeat the change", version)
}

func orNone(v any) string {
	if v == nil {
		return "<none>"
	}
	return cmp.Or(fmt.Sprint(v), "<none>")
}

// SetAnnotation sets an annotation of an object whose metadata and annotations may be shared.
func SetAnnotation(object map[string]any, key, value string) {
	metadata := child(object, "metadata")
	annotations := child(metadata, "annotations")
	annotations[key] = value
	metadata["annotations"], object["metadata"] = annotations, metadata
}

func annotationOf(object map[string]any, key string) string {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	value, _ := annotations[key].(string)
	return value
}

// child returns a copy of an object in a field, which may be absent.
func child(object map[string]any, field string) map[string]any {
	copied, _ := object[field].(map[string]any)
	if copied = maps.Clone(copied); copied == nil {
		copied = map[string]any{}
	}
	return copied
}
