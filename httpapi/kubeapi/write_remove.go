package kubeapi

import (
	"encoding/json"
	"net/http"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/internal/objectwrite"
)

// remove serves DELETE.
func (a *API) remove(w http.ResponseWriter, r *http.Request, res *resource) error {
	options, err := deleteOptions(r)
	if err != nil {
		return err
	}
	o, err := writeOptions(r, options.DryRun)
	if err != nil {
		return err
	}
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	e, declared := a.lookup(res, namespace, name)
	if err := checkPreconditions(options.Preconditions, e); err != nil {
		return err
	}
	var removal objectwrite.Removal
	if p := options.Preconditions; p != nil && p.ResourceVersion != nil {
		removal.ResourceVersion = *p.ResourceVersion
	}
	if pod, ok := objectOf(e).(*v1.Pod); ok {
		removal.UID, removal.Grace = pod.UID, options.GracePeriodSeconds
	}
	written, err := a.writer.Delete(r.Context(), objectwrite.Ref{Kind: res.kind, Namespace: namespace, Name: declared},
		removal, o)
	if objectwrite.ReasonOf(err) == objectwrite.NotFound && e != nil && e.object.GetDeletionTimestamp() != nil {
		err = nil // it is being deleted, and the grace period may be shorter now
	}
	if err != nil {
		return a.missing(err, res, namespace, name, e)
	}
	if pod, ok := objectOf(e).(*v1.Pod); ok {
		return sendDeletedPod(w, pod, options.GracePeriodSeconds, written)
	}
	s := &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Code: http.StatusOK}
	s.Details = &metav1.StatusDetails{Name: name, Kind: res.name, Group: res.group}
	if e != nil {
		s.Details.UID = e.object.GetUID()
	}
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	sendWritten(w, http.StatusOK, written, body)
	return nil
}

func objectOf(e *entry) Object {
	if e == nil {
		return nil
	}
	return e.object
}

// checkPreconditions checks that the object is the one that the client means.
func checkPreconditions(p *metav1.Preconditions, e *entry) error {
	if p == nil {
		return nil
	}
	uid, version := "", ""
	if e != nil {
		uid, version = string(e.object.GetUID()), e.object.GetResourceVersion()
	}
	switch {
	case p.UID != nil && string(*p.UID) != uid:
		return fail(http.StatusConflict, "the object has the uid %s, not %s as required", orNone(uid), *p.UID)
	case p.ResourceVersion != nil && *p.ResourceVersion != version:
		return fail(http.StatusConflict, "the object has changed since resourceVersion %s", *p.ResourceVersion)
	}
	return nil
}

// sendDeletedPod responds with a pod that ends.
func sendDeletedPod(w http.ResponseWriter, pod *v1.Pod, grace *int64, written objectwrite.Written) error {
	own := pod.DeepCopy()
	if own.DeletionTimestamp == nil {
		if grace == nil {
			grace = own.Spec.TerminationGracePeriodSeconds
		}
		now := metav1.Now()
		own.DeletionTimestamp, own.DeletionGracePeriodSeconds = &now, grace
	}
	body, err := json.Marshal(own)
	if err != nil {
		return err
	}
	sendWritten(w, http.StatusOK, written, body)
	return nil
}
