package kubeapi

import (
	"context"
	"maps"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/httpapi/apistatus"
)

// create serves POST.
func (a *API) create(w http.ResponseWriter, r *http.Request, res *resource) error {
	o, err := writeOptions(r, r.URL.Query()["dryRun"])
	if err != nil {
		return err
	}
	object, err := readObject(r, res)
	if err != nil {
		return err
	}
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	switch {
	case name == "":
		return fail(http.StatusUnprocessableEntity,
			"metadata.name: is missing; an object in a manifest needs a name, which is not generated")
	case metadata["resourceVersion"] != nil && metadata["resourceVersion"] != "":
		return fail(http.StatusBadRequest, "metadata.resourceVersion: must not be set on an object to be created")
	}
	e, declared := a.lookup(res, r.PathValue("namespace"), name)
	metadata = maps.Clone(metadata)
	metadata["name"] = declared
	if err := setNamespace(metadata, r, res); err != nil {
		return err
	}
	object["metadata"] = metadata
	if e != nil && e.object.GetDeletionTimestamp() == nil && !a.isUndeclared(r, res, e.object.GetNamespace(), declared) {
		where := a.manifest(res.kind, e.object.GetNamespace(), e.object.GetName())
		if where != "" {
			where = " in " + where
		}
		s := apistatus.New(http.StatusConflict, "%s %q already exists%s", res.name, e.object.GetName(), where)
		s.Reason = metav1.StatusReasonAlreadyExists
		return &requestFailure{s}
	}
	written, err := a.writer.Create(r.Context(), object, o)
	if err != nil {
		return err
	}
	if !o.DryRun {
		if shown := a.awaitShown(r.Context(), res, written.Object); shown != nil {
			sendWritten(w, http.StatusCreated, written, shown.bytes())
			return nil
		}
	}
	body, err := a.encode(res, written, nil)
	if err != nil {
		return err
	}
	sendWritten(w, http.StatusCreated, written, body)
	return nil
}

// setNamespace gives an object the namespace of the path.
func setNamespace(metadata map[string]any, r *http.Request, res *resource) error {
	namespace := r.PathValue("namespace")
	switch {
	case !res.namespaced:
		delete(metadata, "namespace")
	case metadata["namespace"] == nil || metadata["namespace"] == "" || metadata["namespace"] == namespace:
		metadata["namespace"] = namespace
	default:
		return fail(http.StatusBadRequest, "metadata.namespace: is %v, must be %s as in the path", metadata["namespace"],
			namespace)
	}
	return nil
}

// awaitShown waits until a new object is in the API, and returns it; nil after a timeout.
func (a *API) awaitShown(ctx context.Context, res *resource, object map[string]any) *entry {
	ctx, cancel := context.WithTimeout(ctx, shownTimeout)
	defer cancel()
	var changed <-chan struct{}
	if res.cache.source.Subscribe != nil {
		notified, unsubscribe := res.cache.source.Subscribe()
		defer unsubscribe()
		changed = notified
	}
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	for {
		e := res.cache.get(namespace, name)
		if e != nil && (metadata["uid"] == nil || metadata["uid"] == string(e.object.GetUID())) {
			return e
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}
