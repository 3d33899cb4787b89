package kubeapi

import (
	"maps"
	"net/http"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/internal/objectpatch"
	"github.com/podstead/podstead/internal/objectwrite"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// replace serves PUT.
func (a *API) replace(w http.ResponseWriter, r *http.Request, res *resource) error {
	object, err := readObject(r, res)
	if err != nil {
		return err
	}
	if metadata, _ := object["metadata"].(map[string]any); metadata == nil {
		return fail(http.StatusUnprocessableEntity, "metadata: is missing")
	}
	return a.update(w, r, res, objectpatch.Patch{Object: object})
}

// patch serves PATCH.
func (a *API) patch(w http.ResponseWriter, r *http.Request, res *resource) error {
	p, err := patchOf(r, res)
	if err != nil {
		return err
	}
	return a.update(w, r, res, p)
}

// update changes an object.
func (a *API) update(w http.ResponseWriter, r *http.Request, res *resource, p objectpatch.Patch) error {
	o, err := writeOptions(r, r.URL.Query()["dryRun"])
	if err != nil {
		return err
	}
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	_, declared := a.lookup(res, namespace, name)
	ref := objectwrite.Ref{Kind: res.kind, Namespace: namespace, Name: declared}
	// The manifest before what the API shows: a client that names the version which it has seen gets a conflict if the
	// manifest has changed since.
	before, err := a.writer.Find(ref)
	e, _ := a.lookup(res, namespace, name)
	if err != nil {
		return a.missing(err, res, namespace, name, e)
	}
	view := viewOf(res, e, namespace, name, declared)
	view.Digest = before.Digest
	written, err := a.writer.Update(r.Context(), ref, objectwrite.Update{Patch: p, View: view}, o)
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
	if written.Applied != "" {
		// kubectl diff compares this object with the one that it was shown.
		objectwrite.SetAnnotation(written.Object, v1.LastAppliedConfigAnnotation, written.Applied)
	}
	if o.DryRun && e != nil {
		metadata = written.Object["metadata"].(map[string]any)
		metadata["uid"] = string(e.object.GetUID())
		for key, value := range e.object.GetAnnotations() {
			if slices.Contains(identityAnnotations, key) {
				objectwrite.SetAnnotation(written.Object, key, value)
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
var identityAnnotations = []string{podinfo.AnnotationHash, podinfo.AnnotationSeen, podinfo.AnnotationTemplate,
	podinfo.AnnotationImages}

// isUndeclared reports whether no manifest declares an object any more, although it is still shown.
// Only a caller who may write gets true: under the name of its manifest such a pod does not exist,
// so that kubectl apply creates it again and does not change a pod that is being deleted.
func (a *API) isUndeclared(r *http.Request, res *resource, namespace, declared string) bool {
	if a.writer == nil || !res.declared || !access.CallerFrom(r.Context()).Classes.Has(access.Write) {
		return false
	}
	_, err := a.writer.Find(objectwrite.Ref{Kind: res.kind, Namespace: namespace, Name: declared})
	return objectwrite.ReasonOf(err) == objectwrite.NotFound
}

// missing makes the error of an object that no manifest declares a better one.
func (a *API) missing(err error, res *resource, namespace, name string, e *entry) error {
	if objectwrite.ReasonOf(err) != objectwrite.NotFound {
		return err
	}
	if e != nil {
		return fail(http.StatusConflict, "%s %q is in no manifest any more and is being deleted", res.name, name)
	}
	return &requestFailure{a.notFound(res, namespace, name)}
}
