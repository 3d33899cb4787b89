package kubeapi

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/httpapi/access"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// replace serves PUT.
func (a *API) replace(w http.ResponseWriter, r *http.Request, res *resource) error {
	object, err := readObject(r, res)
	if err != nil {
		return err
	}
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil {
		return fail(http.StatusUnprocessableEntity, "metadata: is missing")
	}
	return a.update(w, r, res, modification{whole: true, versioned: true, wanted: func(map[string]any) (map[string]any, error) { return object, nil }})
}

// patch serves PATCH.
func (a *API) patch(w http.ResponseWriter, r *http.Request, res *resource) error {
	p, err := patchOf(r, res)
	if err != nil {
		return err
	}
	return a.update(w, r, res, modification{versioned: p.versioned, wanted: func(object map[string]any) (map[string]any, error) {
		patched, err := p.apply(object)
		if err != nil {
			err = fail(http.StatusUnprocessableEntity, "the patch cannot be applied: %v", err)
		}
		return patched, err
	}})
}

// modification is a change of one object.
type modification struct {
	// whole says that the client sends all of the object, versioned that it may name the version
	// that it has seen.
	whole, versioned bool
	wanted           func(shown map[string]any) (map[string]any, error)
}

// update changes an object.
func (a *API) update(w http.ResponseWriter, r *http.Request, res *resource, m modification) error {
	o, err := writeOptions(r, r.URL.Query()["dryRun"])
	if err != nil {
		return err
	}
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	e, declared := a.lookup(res, namespace, name)
	target := ObjectName{Kind: res.kind, Namespace: namespace, Name: declared}
	applied := ""
	written, err := a.writer.Update(r.Context(), target, Update{Whole: m.whole, Wanted: func(d Declared) (map[string]any, error) {
		e, _ = a.lookup(res, namespace, name)
		shown := shownObject(d.Object, e, name)
		setBound(shown, objectOf(e))
		setAnnotation(shown, v1.LastAppliedConfigAnnotation, lastApplied(d.Document, name, res, namespace))
		object, err := m.wanted(shown)
		if err != nil {
			return nil, err
		}
		dropBound(object, d.Object, objectOf(e))
		applied = annotationOf(object, v1.LastAppliedConfigAnnotation)
		if err := checkMetadata(object, shown, e, declared, d.Pending, m.versioned); err != nil {
			return nil, err
		}
		if res.kind != "Pod" {
			return object, nil
		}
		return withoutEphemeral(object, shown)
	}}, o)
	if err != nil {
		return a.missing(err, res, namespace, name, e)
	}
	if !o.DryRun && res.kind != "Pod" {
		if now, _ := a.lookup(res, namespace, name); now != nil {
			sendWritten(w, http.StatusOK, written, now.bytes())
			return nil
		}
	}
	written.Object = maps.Clone(written.Object)
	metadata, _ := written.Object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata["name"] = name
	written.Object["metadata"] = metadata
	if applied != "" {
		// kubectl diff compares this object with the one that it was shown.
		setAnnotation(written.Object, v1.LastAppliedConfigAnnotation, applied)
	}
	if o.DryRun && e != nil {
		metadata = written.Object["metadata"].(map[string]any)
		metadata["uid"] = string(e.object.GetUID())
		for key, value := range e.object.GetAnnotations() {
			if slices.Contains(identityAnnotations, key) {
				setAnnotation(written.Object, key, value)
			}
		}
	}
	body, err := a.encode(res, written, e)
	if err != nil {
		return err
	}
	sendWritten(w, http.StatusOK, written, body)
	return nil
}

// identityAnnotations are the annotations that identify a revision of a pod. A dry run does not
// change them, as it does not change the UID.
var identityAnnotations = []string{podinfo.AnnotationHash, podinfo.AnnotationSeen, podinfo.AnnotationTemplate, podinfo.AnnotationImages}

// isUndeclared reports whether no manifest declares an object any more, although it is still shown.
// Only a caller who may write gets true: under the name of its manifest such a pod does not exist,
// so that kubectl apply creates it again and does not change a pod that is being deleted.
func (a *API) isUndeclared(r *http.Request, res *resource, namespace, declared string) bool {
	if a.writer == nil || !res.declared || !access.CallerFrom(r.Context()).Classes.Has(access.Write) {
		return false
	}
	_, err := a.writer.Find(ObjectName{Kind: res.kind, Namespace: namespace, Name: declared})
	var failure *Failure
	return errors.As(err, &failure) && failure.Status.Code == http.StatusNotFound
}

// setAnnotation sets an annotation of an object whose metadata is its own.
func setAnnotation(object map[string]any, key, value string) {
	metadata, _ := object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	annotations, _ := metadata["annotations"].(map[string]any)
	annotations = maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[key] = value
	metadata["annotations"] = annotations
	object["metadata"] = metadata
}

func annotationOf(object map[string]any, key string) string {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	value, _ := annotations[key].(string)
	return value
}

// missing makes the error of an object that no manifest declares a better one.
func (a *API) missing(err error, res *resource, namespace, name string, e *entry) error {
	var failure *Failure
	if !errors.As(err, &failure) || failure.Status.Code != http.StatusNotFound {
		return err
	}
	if e != nil {
		return fail(http.StatusConflict, "%s %q is in no manifest any more and is being deleted", res.name, name)
	}
	return &Failure{a.notFound(res, namespace, name)}
}

// checkMetadata checks that a changed object is still the one of the request, and the version
// that the client has seen if it names one (versioned).
func checkMetadata(object, shown map[string]any, e *entry, declared string, pending, versioned bool) error {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return fail(http.StatusUnprocessableEntity, "metadata: must be an object")
	}
	known := shown["metadata"].(map[string]any)
	for _, field := range []string{"kind", "apiVersion"} {
		if object[field] != nil && shown[field] != nil && object[field] != shown[field] {
			return fail(http.StatusUnprocessableEntity, "%s: must not change from %v to %v", field, shown[field], object[field])
		}
	}
	if name := metadata["name"]; name != nil && name != known["name"] && name != declared && (e == nil || name != e.object.GetName()) {
		return fail(http.StatusUnprocessableEntity, "metadata.name: must not change from %v to %v", known["name"], name)
	}
	if namespace := metadata["namespace"]; namespace != nil && namespace != "" && known["namespace"] != nil && namespace != known["namespace"] {
		return fail(http.StatusUnprocessableEntity, "metadata.namespace: must not change from %v to %v", known["namespace"], namespace)
	}
	if uid := metadata["uid"]; uid != nil && uid != "" && uid != known["uid"] {
		return fail(http.StatusConflict, "the object has the uid %v, not %v: it was replaced meanwhile; get it again and repeat the change", orNone(fmt.Sprint(known["uid"])), uid)
	}
	version := metadata["resourceVersion"]
	switch {
	case !versioned || version == nil || version == "":
	case version != known["resourceVersion"] && (e == nil || !e.hasSeen(fmt.Sprint(version))):
		return fail(http.StatusConflict, "the object has changed since resourceVersion %v; get it again and repeat the change", version)
	case pending:
		return fail(http.StatusConflict, "the manifest has changed on the disk since resourceVersion %v, and the daemon has not read it yet; get the object again and repeat the change", version)
	}
	return nil
}
