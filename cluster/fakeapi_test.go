package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/podstead/podstead/internal/wakeup"
)

// fakeAPI is an in-memory API server, implemented as a transport: it opens no
// socket and so works within a synctest bubble. It supports get, list with
// field selectors, watch from a version on, create, update, merge patch (also
// of status, and the strategic one there) and graceful deletion of pods, all
// with the versions, preconditions and rejections of a real one. Tests add
// other behaviour of a real server with react.
type fakeAPI struct {
	mu      sync.Mutex
	version int
	// compacted is the version below which watches are expired.
	compacted int
	objects   map[string]fakeObject
	history   []fakeEvent
	watches   map[*fakeWatch]bool
	asked     []fakeRequest
	// away rejects connections; silent accepts requests and never responds
	// them.
	away, silent bool
	// unknownStatus is a field of statuses that the server does not know, and drops.
	unknownStatus string
	// watchError is sent in each watch of pods as soon as it begins; nil sends none.
	watchError apierrors.APIStatus
	// short ends each watch as soon as it begins.
	short bool
	// react responds in place of the server, unless it returns nil. An error
	// that is an APIStatus is sent as the response, any other error breaks
	// the connection.
	react func(fakeRequest) (runtime.Object, error)
}

// fakeObject is an object in its JSON form.
type fakeObject map[string]any

// fakeRequest is one request: for pods/status resource is pods and sub is
// status. Body is the JSON that was sent.
type fakeRequest struct {
	at                             time.Time
	verb                           string
	resource, sub, namespace, name string
	body                           []byte
	// strategic marks a strategic merge patch.
	strategic bool
	// selector is the field selector of the query.
	selector string
}

func (r fakeRequest) String() string {
	s := r.verb + " " + r.resource
	if r.sub != "" {
		s += "/" + r.sub
	}
	if r.name != "" {
		s += " " + r.namespace + "/" + r.name
	}
	return s
}

type fakeEvent struct {
	version       int
	resource      string
	before, after fakeObject
}

type fakeWatch struct {
	resource string
	selector fields.Selector
	*stream
}

func newFakeAPI() *fakeAPI {
	return &fakeAPI{version: 1, objects: map[string]fakeObject{}, watches: map[*fakeWatch]bool{}}
}

var fakeScheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1.AddToScheme, coordinationv1.AddToScheme, certificatesv1.AddToScheme, nodev1.AddToScheme, storagev1.AddToScheme,
		policyv1.AddToScheme,
		authenticationv1.AddToScheme, authorizationv1.AddToScheme, resourcev1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

var fakeCodecs = serializer.NewCodecFactory(fakeScheme)

// config returns a client configuration for the server.
func (f *fakeAPI) config() *rest.Config {
	return &rest.Config{Host: "http://api.invalid", Transport: f}
}

// resourceOf returns the resource of a kind.
func resourceOf(kind string) string {
	if s := strings.ToLower(kind); strings.HasSuffix(s, "s") {
		return s + "es"
	}
	return strings.ToLower(kind) + "s"
}

func storeKey(resource, namespace, name string) string {
	return resource + " " + namespace + "/" + name
}

// replace creates or replaces an object, as another client does.
func (f *fakeAPI) replace(t testing.TB, o object) {
	t.Helper()
	kinds, _, err := fakeScheme.ObjectKinds(o)
	if err != nil {
		t.Fatal(err)
	}
	o.GetObjectKind().SetGroupVersionKind(kinds[0])
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store(resourceOf(kinds[0].Kind), toFake(o))
}

// remove deletes an object at once.
func (f *fakeAPI) remove(resource, namespace, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removeKey(resource, storeKey(resource, namespace, name))
}

// get reads an object; it reports false if there is none.
func (f *fakeAPI) get(t testing.TB, resource, namespace, name string, into object) bool {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	o, ok := f.objects[storeKey(resource, namespace, name)]
	if !ok {
		return false
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
	return true
}

// requests returns the requests since the last call.
func (f *fakeAPI) requests() []fakeRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.asked
	f.asked = nil
	return r
}

// setAway closes all connections and rejects new ones, or accepts them again.
func (f *fakeAPI) setAway(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
	if away {
		f.end(io.ErrUnexpectedEOF)
	}
}

// setSilent keeps connections open without sending anything, or responds again.
func (f *fakeAPI) setSilent(silent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.silent = silent
}

// endWatches closes the watches cleanly.
func (f *fakeAPI) endWatches() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(io.EOF)
}

// shortWatches ends each watch as soon as it begins, as a broken proxy does.
func (f *fakeAPI) shortWatches() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.short = true
	f.end(io.EOF)
}

// failWatches sends an error in each watch of a resource and ends it.
func (f *fakeAPI) failWatches(resource string, err apierrors.APIStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watches {
		if w.resource == resource {
			w.fail(err)
			delete(f.watches, w)
		}
	}
}

// fail sends an error and ends the watch.
func (w *fakeWatch) fail(err apierrors.APIStatus) {
	st := err.Status()
	st.Kind, st.APIVersion = "Status", "v1"
	w.event("ERROR", st)
	w.end(io.EOF)
}

// wipe deletes all data, like an etcd that is recreated.
func (f *fakeAPI) wipe() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version, f.compacted, f.history = 1, 0, nil
	clear(f.objects)
	f.end(io.ErrUnexpectedEOF)
}

// compact expires all versions before the current one.
func (f *fakeAPI) compact() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	f.compacted = f.version
}

func (f *fakeAPI) end(err error) {
	for w := range f.watches {
		w.end(err)
	}
	clear(f.watches)
}

// store stores an object; the lock is held. An unchanged object gets no new
// version.
func (f *fakeAPI) store(resource string, o fakeObject) fakeObject {
	m := o.meta()
	at := storeKey(resource, text(m["namespace"]), text(m["name"]))
	before := f.objects[at]
	if before != nil {
		m["uid"], m["creationTimestamp"], m["resourceVersion"] = before.meta()["uid"], before.meta()["creationTimestamp"],
			before.meta()["resourceVersion"]
		if same(before, o) {
			return before
		}
	}
	f.version++
	m["resourceVersion"] = strconv.Itoa(f.version)
	if before == nil {
		m["uid"], m["creationTimestamp"], m["generation"] = fmt.Sprintf("uid-%d", f.version),
			time.Now().UTC().Format(time.RFC3339), 1
	}
	f.objects[at] = o
	f.happened(fakeEvent{f.version, resource, before, o})
	return o
}

func (f *fakeAPI) removeKey(resource, at string) {
	before, ok := f.objects[at]
	if !ok {
		return
	}
	delete(f.objects, at)
	f.version++
	last := before.clone()
	last.meta()["resourceVersion"] = strconv.Itoa(f.version)
	f.happened(fakeEvent{f.version, resource, last, nil})
}

func (f *fakeAPI) happened(e fakeEvent) {
	f.history = append(f.history, e)
	if f.silent {
		return
	}
	for w := range f.watches {
		w.send(e)
	}
}

func (w *fakeWatch) send(e fakeEvent) {
	if e.resource != w.resource {
		return
	}
	was, is := e.before != nil && e.before.matches(w.selector), e.after != nil && e.after.matches(w.selector)
	switch {
	case was && is:
		w.event("MODIFIED", e.after)
	case is:
		w.event("ADDED", e.after)
	case was:
		w.event("DELETED", e.before)
	}
}

func (w *fakeWatch) event(what string, o any) {
	line, err := json.Marshal(map[string]any{"type": what, "object": o})
	if err != nil {
		panic(err)
	}
	w.write(append(line, '\n'))
}

// RoundTrip implements http.RoundTripper.
func (f *fakeAPI) RoundTrip(hr *http.Request) (*http.Response, error) {
	r, err := readRequest(hr)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.asked = append(f.asked, r)
	away, silent, react := f.away, f.silent, f.react
	f.mu.Unlock()
	switch {
	case away:
		return nil, errors.New("connection refused")
	case silent:
		<-hr.Context().Done()
		return nil, hr.Context().Err()
	}
	if react != nil {
		o, err := react(r)
		var status apierrors.APIStatus
		switch {
		case errors.As(err, &status):
			return reply(status), nil
		case err != nil:
			return nil, err
		case o != nil:
			return reply(toFake(o)), nil
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.verb == "WATCH" {
		return f.watch(hr, r), nil
	}
	o, refused := f.serve(hr, r)
	if refused != nil {
		return reply(refused), nil
	}
	return reply(o), nil
}

func readRequest(hr *http.Request) (fakeRequest, error) {
	r := fakeRequest{at: time.Now(), verb: hr.Method, selector: hr.URL.Query().Get("fieldSelector"),
		strategic: hr.Header.Get("Content-Type") == string(types.StrategicMergePatchType)}
	parts := strings.Split(strings.Trim(hr.URL.Path, "/"), "/")
	if parts[0] == "api" {
		parts = parts[2:]
	} else {
		parts = parts[3:]
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		r.namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	r.resource, r.name, r.sub = parts[0], parts[1], parts[2]
	if r.verb == "GET" && r.name == "" {
		r.verb = "LIST"
		if hr.URL.Query().Get("watch") == "true" {
			r.verb = "WATCH"
		}
	}
	if hr.Body == nil {
		return r, nil
	}
	defer hr.Body.Close()
	sent, err := io.ReadAll(hr.Body)
	r.body = sent
	if err != nil || len(sent) == 0 || r.verb == "PATCH" {
		return r, err
	}
	o, _, err := fakeCodecs.UniversalDeserializer().Decode(sent, nil, nil)
	if err == nil {
		r.body, err = json.Marshal(o)
	}
	return r, err
}

func (f *fakeAPI) serve(hr *http.Request, r fakeRequest) (any, apierrors.APIStatus) {
	of := schema.GroupResource{Resource: r.resource}
	at := storeKey(r.resource, r.namespace, r.name)
	known := f.objects[at]
	var sent fakeObject
	if len(r.body) > 0 {
		if err := json.Unmarshal(r.body, &sent); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	switch {
	case r.verb == "LIST":
		return f.list(hr, r), nil
	case r.verb == "POST" && r.name == "":
		m := sent.meta()
		if r.namespace != "" {
			m["namespace"] = r.namespace
		}
		if text(m["name"]) == "" {
			m["name"] = fmt.Sprintf("%s%d", text(m["generateName"]), f.version)
		}
		if _, there := f.objects[storeKey(r.resource, r.namespace, text(m["name"]))]; there {
			return nil, apierrors.NewAlreadyExists(of, text(m["name"]))
		}
		return f.store(r.resource, sent), nil
	case known == nil:
		return nil, apierrors.NewNotFound(of, r.name)
	case r.verb == "GET":
		return known, nil
	case r.verb == "PUT" || r.verb == "PATCH":
		return f.change(r, known, sent)
	case r.verb == "DELETE":
		return f.delete(r, known, at, sent)
	}
	return nil, apierrors.NewMethodNotSupported(of, r.verb)
}

func (f *fakeAPI) change(r fakeRequest, known, sent fakeObject) (any, apierrors.APIStatus) {
	of := schema.GroupResource{Resource: r.resource}
	for _, field := range []string{"uid", "resourceVersion"} {
		if want := text(sent.meta()[field]); want != "" && want != text(known.meta()[field]) {
			return nil, apierrors.NewConflict(of, r.name, fmt.Errorf("%s is %s", field, known.meta()[field]))
		}
	}
	next := sent
	if r.verb == "PATCH" {
		next = known.clone()
		if r.strategic {
			mergeLists(next, sent)
		}
		merge(next, sent)
	}
	if r.sub == "status" {
		status := next["status"]
		if fields, ok := status.(map[string]any); ok {
			delete(fields, f.unknownStatus)
		}
		next = known.clone()
		next["status"] = status
	} else if r.sub == "" {
		next["status"] = known["status"]
	}
	return f.store(r.resource, next), nil
}

func (f *fakeAPI) delete(r fakeRequest, known fakeObject, at string, sent fakeObject) (any, apierrors.APIStatus) {
	if p, ok := sent["preconditions"].(map[string]any); ok && text(p["uid"]) != "" &&
		text(p["uid"]) != text(known.meta()["uid"]) {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: r.resource}, r.name,
			errors.New("the UID is another"))
	}
	grace, given := sent["gracePeriodSeconds"].(float64)
	if r.resource == "pods" && !given {
		grace = 30
		if spec, ok := known["spec"].(map[string]any); ok {
			if own, ok := spec["terminationGracePeriodSeconds"].(float64); ok {
				grace = own
			}
		}
	}
	finalizers, _ := known.meta()["finalizers"].([]any)
	if len(finalizers) == 0 && (r.resource != "pods" || grace == 0) {
		f.removeKey(r.resource, at)
		return known, nil
	}
	next := known.clone()
	next.meta()["deletionTimestamp"] = time.Now().Add(time.Duration(grace) * time.Second).UTC().Format(time.RFC3339)
	next.meta()["deletionGracePeriodSeconds"] = grace
	return f.store(r.resource, next), nil
}

func selectorOf(hr *http.Request) fields.Selector {
	return fields.ParseSelectorOrDie(hr.URL.Query().Get("fieldSelector"))
}

// listKind handles kinds whose plural is not the kind with an s.
func listKind(resource string) (apiVersion, kind string) {
	for gvk := range fakeScheme.AllKnownTypes() {
		if resourceOf(gvk.Kind) == resource {
			return gvk.GroupVersion().String(), gvk.Kind + "List"
		}
	}
	return "v1", "List"
}

func (f *fakeAPI) list(hr *http.Request, r fakeRequest) any {
	selector := selectorOf(hr)
	items := []fakeObject{}
	for _, at := range slices.Sorted(maps.Keys(f.objects)) {
		o := f.objects[at]
		if strings.HasPrefix(at, storeKey(r.resource, r.namespace, "")) || r.namespace == "" &&
			strings.HasPrefix(at, r.resource+" ") {
			if o.matches(selector) {
				items = append(items, o)
			}
		}
	}
	apiVersion, kind := listKind(r.resource)
	return map[string]any{
		"apiVersion": apiVersion, "kind": kind, "items": items,
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(f.version)},
	}
}

func (f *fakeAPI) watch(hr *http.Request, r fakeRequest) *http.Response {
	w := &fakeWatch{resource: r.resource, selector: selectorOf(hr), stream: newStream()}
	since, _ := strconv.Atoi(hr.URL.Query().Get("resourceVersion"))
	switch {
	case f.watchError != nil && r.resource == "pods":
		w.fail(f.watchError)
	case since < f.compacted:
		w.fail(apierrors.NewResourceExpired("too old resource version"))
	default:
		f.watches[w] = true
	}
	for _, e := range f.history {
		if e.version > since {
			w.send(e)
		}
	}
	if f.short {
		w.end(io.EOF)
	}
	ended := func(err error) {
		f.mu.Lock()
		delete(f.watches, w)
		f.mu.Unlock()
		w.end(err)
	}
	if seconds, _ := strconv.Atoi(hr.URL.Query().Get("timeoutSeconds")); seconds > 0 {
		timer := time.AfterFunc(time.Duration(seconds)*time.Second, func() {
			if !f.isSilent() {
				ended(io.EOF)
			}
		})
		w.closed = func() { timer.Stop(); ended(io.ErrClosedPipe) }
	} else {
		w.closed = func() { ended(io.ErrClosedPipe) }
	}
	context.AfterFunc(hr.Context(), func() { ended(hr.Context().Err()) })
	return response(http.StatusOK, w.stream)
}

func (f *fakeAPI) isSilent() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.silent
}

func reply(o any) *http.Response {
	code := http.StatusOK
	if refused, ok := o.(apierrors.APIStatus); ok {
		st := refused.Status()
		st.Kind, st.APIVersion = "Status", "v1"
		code, o = int(st.Code), st
	}
	body, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return response(code, io.NopCloser(bytes.NewReader(body)))
}

func response(code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: strconv.Itoa(code) + " " + http.StatusText(code), Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body,
	}
}

func toFake(o any) fakeObject {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var f fakeObject
	if err := json.Unmarshal(text, &f); err != nil {
		panic(err)
	}
	return f
}

func (o fakeObject) clone() fakeObject { return toFake(o) }

func (o fakeObject) meta() map[string]any {
	m, ok := o["metadata"].(map[string]any)
	if !ok {
		m = map[string]any{}
		if o != nil {
			o["metadata"] = m
		}
	}
	return m
}

func (o fakeObject) matches(s fields.Selector) bool {
	all := fields.Set{"metadata.name": text(o.meta()["name"]), "metadata.namespace": text(o.meta()["namespace"])}
	if spec, ok := o["spec"].(map[string]any); ok {
		all["spec.nodeName"] = text(spec["nodeName"])
	}
	return s.Matches(all)
}

func same(a, b fakeObject) bool {
	x, y := toJSON(a), toJSON(b)
	return bytes.Equal(x, y)
}

func toJSON(o any) []byte {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return text
}

// mergeKeys are the keys of the lists in a pod's status that a strategic merge
// patch merges.
var mergeKeys = map[string]string{"conditions": "type", "podIPs": "ip", "hostIPs": "ip"}

// mergeLists replaces each list of a strategic merge patch of a status by the
// result of merging it into the existing list.
func mergeLists(into, patch fakeObject) {
	was, _ := into["status"].(map[string]any)
	status, _ := patch["status"].(map[string]any)
	for name, by := range mergeKeys {
		changes, ok := status[name].([]any)
		if !ok {
			continue
		}
		list, _ := was[name].([]any)
		for _, change := range changes {
			c := change.(map[string]any)
			if c["$patch"] == "replace" {
				list = nil
				continue
			}
			i := slices.IndexFunc(list, func(o any) bool { return o.(map[string]any)[by] == c[by] })
			switch {
			case c["$patch"] == "delete" && i >= 0:
				list = slices.Delete(list, i, i+1)
			case c["$patch"] == "delete":
			case i >= 0:
				merge(list[i].(map[string]any), c)
			default:
				list = append(list, c)
			}
		}
		status[name] = list
	}
}

// merge applies a JSON merge patch.
func merge(into, patch map[string]any) {
	for name, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(into, name)
		case map[string]any:
			sub, ok := into[name].(map[string]any)
			if !ok {
				sub = map[string]any{}
				into[name] = sub
			}
			merge(sub, v)
		default:
			into[name] = v
		}
	}
}

func text(v any) string { s, _ := v.(string); return s }

// stream is a response body that grows while it is read; writers never block.
type stream struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	err    error
	more   wakeup.Signal
	closed func()
}

func newStream() *stream { return &stream{more: wakeup.NewSignal()} }

func (s *stream) write(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.Write(p)
	s.more.Notify()
}

func (s *stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = cmp.Or(s.err, err)
	s.more.Notify()
}

func (s *stream) Read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		n, err := s.buf.Len(), s.err
		if n > 0 {
			n, _ = s.buf.Read(p)
			s.mu.Unlock()
			return n, nil
		}
		s.mu.Unlock()
		if err != nil {
			s.more.Notify()
			return 0, err
		}
		<-s.more.C()
	}
}

func (s *stream) Close() error {
	s.closed()
	return nil
}
