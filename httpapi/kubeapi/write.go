package kubeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/apistatus"
	"github.com/podstead/podstead/internal/objectpatch"
	podinfo "github.com/podstead/podstead/internal/pod"
)

const (
	// maxWrites is the maximum number of writes at once, of which they are made one after the
	// other. localWrites are in addition, for callers on the socket.
	maxWrites, localWrites = 8, 2
	// maxReceives is the maximum number of writes whose bodies are being received at once, each for at
	// most receiveTimeout. They take no slot of a write yet, so that slow clients block no others.
	maxReceives, localReceives = 64, 8
	receiveTimeout             = 10 * time.Second
	// shownTimeout limits the wait for a new pod to appear in the API.
	shownTimeout = 3 * time.Second
	// maxWarnings and maxWarning are the maximum number and length of the warnings of an answer.
	maxWarnings, maxWarning = 20, 1024
)

// write answers a request that changes an object.
func (a *API) write(w http.ResponseWriter, r *http.Request, res *resource) {
	if !a.receive(w, r) {
		return
	}
	release := acquire(r, a.writes, a.localWrites)
	if release == nil {
		tooMany(w, r, "%d writes are in progress; try again", maxWrites)
		return
	}
	defer release()
	if res.adminView != nil {
		res = res.adminView // the class Write includes the data of Secrets
	}
	var err error
	switch named := r.PathValue("name") != ""; {
	case r.Method == http.MethodPost && !named:
		err = a.create(w, r, res)
	case r.Method == http.MethodPut && named:
		err = a.replace(w, r, res)
	case r.Method == http.MethodPatch && named:
		err = a.patch(w, r, res)
	case r.Method == http.MethodDelete && named:
		err = a.remove(w, r, res)
	case r.Method == http.MethodDelete:
		err = fail(http.StatusMethodNotAllowed, "%s are deleted one by one; name the object", res.name)
	default:
		err = fail(http.StatusMethodNotAllowed, "%s does not support %s", r.URL.Path, r.Method)
	}
	if err != nil {
		writeFailure(w, r, err)
	}
}

// writeFailure answers a write with its error.
func writeFailure(w http.ResponseWriter, r *http.Request, err error) {
	var failure *Failure
	if !errors.As(err, &failure) {
		failure = &Failure{apistatus.New(http.StatusInternalServerError, "%v", err)}
	}
	apistatus.Write(w, r, failure.Status)
}

func tooMany(w http.ResponseWriter, r *http.Request, format string, args ...any) {
	w.Header().Set("Retry-After", "1")
	apistatus.Write(w, r, apistatus.New(http.StatusTooManyRequests, format, args...))
}

// receive replaces the body of a request with its content. It answers a request whose body does
// not arrive, and returns false.
func (a *API) receive(w http.ResponseWriter, r *http.Request) bool {
	release := acquire(r, a.receives, a.localReceives)
	if release == nil {
		tooMany(w, r, "the bodies of %d writes are being received; try again", maxReceives)
		return false
	}
	defer release()
	control := http.NewResponseController(w)
	// A writer without deadlines is one of a test.
	_ = control.SetReadDeadline(time.Now().Add(receiveTimeout))
	body, err := readBody(r)
	if err != nil { // the deadline stays: the server reads the rest of the body before it answers
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fail(http.StatusRequestTimeout, "the body did not arrive within %v", receiveTimeout)
		}
		writeFailure(w, r, err)
		return false
	}
	// Without a deadline the server still notices that the client has disconnected.
	_ = control.SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(bytes.NewReader(body))
	return true
}

// acquire takes one of the slots, of which callers on the socket have some of their own; nil if none
// is free.
func acquire(r *http.Request, slots, local chan struct{}) (release func()) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }
	default:
	}
	if access.CallerFrom(r.Context()).Local {
		select {
		case local <- struct{}{}:
			return func() { <-local }
		default:
		}
	}
	return nil
}

func writeOptions(r *http.Request, dryRun []string) (WriteOptions, error) {
	o := WriteOptions{User: access.CallerFrom(r.Context()).User}
	var err error
	o.DryRun, err = isDryRun(dryRun)
	return o, err
}

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
		return fail(http.StatusUnprocessableEntity, "metadata.name: is missing; an object in a manifest needs a name, which is not generated")
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
		return &Failure{s}
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
		return fail(http.StatusBadRequest, "metadata.namespace: is %v, must be %s as in the path", metadata["namespace"], namespace)
	}
	return nil
}

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

// shownObject returns a declared object with the metadata and the status that clients see.
func shownObject(object map[string]any, e *entry, name string) map[string]any {
	shown := maps.Clone(object)
	metadata, _ := shown["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["name"] = name
	if e != nil {
		metadata["resourceVersion"], metadata["uid"] = e.object.GetResourceVersion(), string(e.object.GetUID())
		if live, err := objectpatch.Decode(e.bytes()); err == nil {
			if live["status"] != nil {
				shown["status"] = live["status"]
			}
			withEphemeral(shown, live)
			if created := live["metadata"].(map[string]any)["creationTimestamp"]; created != nil {
				metadata["creationTimestamp"] = created
			}
		}
	}
	shown["metadata"] = metadata
	return shown
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
	case version != known["resourceVersion"]:
		return fail(http.StatusConflict, "the object has changed since resourceVersion %v; get it again and repeat the change", version)
	case pending:
		return fail(http.StatusConflict, "the manifest has changed on the disk since resourceVersion %v, and the daemon has not read it yet; get the object again and repeat the change", version)
	}
	return nil
}

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
	removal := Removal{Check: func(d Declared) error { return checkPreconditions(options.Preconditions, e, d.Pending) }}
	if pod, ok := objectOf(e).(*v1.Pod); ok {
		removal.UID, removal.Grace = pod.UID, options.GracePeriodSeconds
	}
	written, err := a.writer.Delete(r.Context(), ObjectName{Kind: res.kind, Namespace: namespace, Name: declared}, removal, o)
	var failure *Failure
	if errors.As(err, &failure) && failure.Status.Code == http.StatusNotFound && e != nil && e.object.GetDeletionTimestamp() != nil {
		err = nil // it is being deleted, and the grace period may be shorter now
	}
	if err != nil {
		return a.missing(err, res, namespace, name, e)
	}
	if pod, ok := objectOf(e).(*v1.Pod); ok {
		return sendDeletedPod(w, pod, options.GracePeriodSeconds, written)
	}
	s := &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusOK}
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
func checkPreconditions(p *metav1.Preconditions, e *entry, pending bool) error {
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
	case p.ResourceVersion != nil && (*p.ResourceVersion != version || pending):
		return fail(http.StatusConflict, "the object has changed since resourceVersion %s", *p.ResourceVersion)
	}
	return nil
}

// sendDeletedPod answers with a pod that ends.
func sendDeletedPod(w http.ResponseWriter, pod *v1.Pod, grace *int64, written Written) error {
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

// encode returns a written object that the API does not show yet. before is what it shows.
func (a *API) encode(res *resource, written Written, before *entry) ([]byte, error) {
	object := maps.Clone(written.Object)
	if object == nil {
		object = map[string]any{}
	}
	metadata, _ := object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	delete(object, "stringData")
	if before != nil {
		metadata["resourceVersion"] = before.object.GetResourceVersion()
		if metadata["uid"] == nil {
			metadata["uid"] = string(before.object.GetUID())
		}
		if live, err := objectpatch.Decode(before.bytes()); err == nil && metadata["uid"] == string(before.object.GetUID()) && live["status"] != nil {
			object["status"] = live["status"]
		}
	}
	if res.kind == "Pod" && object["status"] == nil {
		object["status"] = map[string]any{"phase": "Pending"}
	}
	object["metadata"], object["kind"], object["apiVersion"] = metadata, res.kind, res.apiVersion()
	return json.Marshal(object)
}

// sendWritten answers a write with the object and the warnings about it.
func sendWritten(w http.ResponseWriter, code int, written Written, body []byte) {
	for i, text := range written.Warnings {
		if i == maxWarnings {
			break
		}
		w.Header().Add("Warning", `299 - "`+headerText(text)+`"`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that has disconnected needs no answer
}

// headerText returns a text as the content of a quoted string in a header.
func headerText(text string) string {
	if len(text) > maxWarning {
		text = strings.ToValidUTF8(text[:maxWarning], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text))
}

// lastApplied returns the annotation in which kubectl apply finds what it has applied. It is made
// of the document, which is what was applied last, and is not stored: in the manifest it would
// be a copy of it, would change the pod, and would reveal Secrets.
func lastApplied(document map[string]any, name string, res *resource, namespace string) string {
	applied := maps.Clone(document)
	metadata, _ := applied["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	annotations = maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]any{}
	}
	delete(annotations, v1.LastAppliedConfigAnnotation)
	metadata["annotations"], metadata["name"] = annotations, name
	if res.namespaced {
		metadata["namespace"] = namespace
	}
	applied["metadata"] = metadata
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(applied); err != nil {
		return ""
	}
	return text.String()
}
