package change

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/objectpatch"
	"github.com/podstead/podstead/internal/objectwrite"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/edit"
)

const webPod = `# the site
apiVersion: v1
kind: Pod
metadata:
  name: web # short
spec:
  containers:
  - name: main
    image: a:1 # pinned
`

var web = manifest.ObjectRef{Kind: "Pod", Namespace: "default", Name: "web"}

func newWriter(t *testing.T, files map[string]string) (*Writer, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return NewWriter(Config{Path: dir, Node: "n1", Mode: manifest.ModeStrict}), dir
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// merge returns a merge patch.
func merge(t *testing.T, patch string) objectpatch.Patch {
	t.Helper()
	p, err := objectpatch.Decode([]byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	return objectpatch.Patch{Type: types.MergePatchType, Object: p}
}

func whole(t *testing.T, object string) objectpatch.Patch {
	t.Helper()
	o, err := objectpatch.Decode([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	return objectpatch.Patch{Object: o}
}

// update changes an object as a client does that was shown it with the resource version 7.
func update(t *testing.T, w *Writer, ref manifest.ObjectRef, dryRun bool, p objectpatch.Patch) (result, error) {
	t.Helper()
	view := objectwrite.View{Name: ref.Name, DeclaredName: ref.Name, ResourceVersion: "7"}
	if d, err := w.Find(objectwrite.Ref(ref)); err == nil {
		metadata := d.Object["metadata"].(map[string]any)
		view.FullName, view.Digest = metadata["name"].(string), d.Digest
		view.UID, _ = metadata["uid"].(string)
	}
	done, _, err := w.update(t.Context(), ref, dryRun, &objectwrite.Update{Patch: p, View: view})
	return done, err
}

func TestUpdateKeepsTheDocument(t *testing.T) {
	const db = "---\n# the database\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: db}\n"
	w, dir := newWriter(t, map[string]string{"site.yaml": webPod + db})
	result, err := update(t, w, web, false,
		merge(t,
			`{"metadata":{"labels":{"app":"web"},"annotations":{"kubernetes.io/config.seen":"x","kubectl.kubernetes.io/last-applied-configuration":"{}"}}}`))
	if err != nil || result.Verb() != "configured" {
		t.Fatalf("%v, %+v", err, result)
	}
	want := strings.Replace(webPod, "  name: web # short\n", "  name: web # short\n  labels:\n    app: web\n", 1) + db
	if got := read(t, dir, "site.yaml"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if name := result.Object["metadata"].(map[string]any)["name"]; name != "web-n1" {
		t.Errorf("the object is named %v", name)
	}
	// A whole object with the defaults that the client was shown.
	d, err := w.Find(objectwrite.Ref(web))
	if err != nil {
		t.Fatal(err)
	}
	exported := objectpatch.Merge(d.Object, map[string]any{"status": map[string]any{"phase": "Running"}})
	spec := exported["spec"].(map[string]any)
	spec["containers"].([]any)[0].(map[string]any)["image"] = "a:2"
	if _, err := update(t, w, web, false, objectpatch.Patch{Object: exported}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, dir, "site.yaml"); got != strings.Replace(want, "a:1", "a:2", 1) {
		t.Errorf("got\n%s", got)
	}
	// Nothing changes: nothing is written.
	result, err = update(t, w, web, false, merge(t, `{"metadata":{"labels":{"app":"web"}}}`))
	if err != nil || result.Verb() != "unchanged" {
		t.Errorf("%v, %s", err, result.Verb())
	}
	if _, err := w.remove(t.Context(), web, false, &objectwrite.Removal{}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, dir, "site.yaml"); strings.Contains(got, "kind: Pod") || !strings.Contains(got, "# the database") {
		t.Errorf("after the deletion:\n%s", got)
	}
}

func TestRefusals(t *testing.T) {
	w, dir := newWriter(t, map[string]string{"web.yaml": webPod,
		"bad.yaml": "kind: Pod\napiVersion: v1\nmetadata: {name: bad}\nspec: {containers: [{name: main}]}\n"})
	bad := manifest.ObjectRef{Kind: "Pod", Namespace: "default", Name: "bad"}
	var faults manifest.Faults
	_, err := update(t, w, web, false, merge(t, `{"spec":{"restartPolicy":"Sometimes"}}`))
	if !errors.As(err, &faults) || !strings.Contains(err.Error(), "web.yaml") ||
		!strings.Contains(err.Error(), "spec.restartPolicy") {
		t.Errorf("an invalid change: %v", err)
	}
	if _, err := update(t, w, web, false, merge(t, `{"spec":{"restartPolicies":"Always"}}`)); !errors.As(err, &faults) {
		t.Errorf("an unknown field: %v", err)
	}
	if _, err := update(t, w, bad, false, merge(t, `{}`)); !errors.As(err, &faults) ||
		!strings.Contains(err.Error(), "must be corrected first") {
		t.Errorf("an invalid manifest: %v", err)
	}
	if _, err := update(t, w, manifest.ObjectRef{Kind: "Pod", Namespace: "default", Name: "none"}, false,
		merge(t, `{}`)); !errors.Is(err, edit.ErrNotFound) {
		t.Errorf("a missing pod: %v", err)
	}
	create := func(text string) error {
		object, err := objectpatch.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.create(t.Context(), object, false)
		return err
	}
	if err := create(
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"},"spec":{"containers":[{"name":"a","image":"b"}]}}`); !errors.Is(err, ErrExists) {
		t.Errorf("an object that exists: %v", err)
	}
	if err := create(
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"new"},"spec":{"containers":[{"name":"a"}]}}`); !errors.As(err,
		&faults) {
		t.Errorf("an invalid object: %v", err)
	}
	if _, err := w.remove(t.Context(), bad, false, &objectwrite.Removal{}); err != nil {
		t.Errorf("the deletion of an invalid manifest: %v", err)
	}
	// A dry run writes nothing.
	if _, err := update(t, w, web, true, merge(t, `{"metadata":{"labels":{"a":"b"}}}`)); err != nil {
		t.Error(err)
	}
	if _, err := w.remove(t.Context(), web, true, &objectwrite.Removal{}); err != nil {
		t.Error(err)
	}
	if got := read(t, dir, "web.yaml"); got != webPod {
		t.Errorf("got\n%s", got)
	}
	for name, c := range map[string]Config{"no directory": {Node: "n1"}, "signed": {Path: dir, Node: "n1", Signed: true}} {
		if _, err := NewWriter(c).create(t.Context(),
			map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"name": "c"}},
			false); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecretsKeepTheirText(t *testing.T) {
	login := manifest.ObjectRef{Kind: manifest.KindSecret, Namespace: "default", Name: "login"}
	const before = "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData:\n  a: one # first\n  b: " +
		"two\ndata:\n  c: dGhyZWU=\n"
	for name, c := range map[string]struct {
		patch      objectpatch.Patch
		want, lost []string
	}{
		"encoded data": {merge(t, `{"data":{"a":"bmV3","c":"ZHJlaQ=="}}`),
			[]string{"a: new # first", "b: two", "c: ZHJlaQ=="}, nil},
		"text": {merge(t, `{"stringData":{"a":"new","d":"four"}}`),
			[]string{"a: new # first", "b: two", "d: Zm91cg=="}, nil},
		"removed text": {merge(t, `{"stringData":{"a":null}}`), []string{"b: two", "c: dGhyZWU="}, []string{"one"}},
		"removed data": {merge(t, `{"data":{"b":null}}`), []string{"a: one # first", "c: dGhyZWU="}, []string{"two"}},
		"whole, data": {
			whole(t,
				`{"kind":"Secret","metadata":{"name":"login"},"type":"Opaque","data":{"a":"b25l","b":"dHdv","c":"dGhyZWU="}}`),
			[]string{"a: one # first", "b: two", "c: dGhyZWU="}, nil},
		"whole, text": {whole(t, `{"kind":"Secret","metadata":{"name":"login"},"stringData":{"a":"new"}}`),
			[]string{"a: new"}, []string{"two", "c:"}},
		"not a text": {merge(t, `{"data":{"a":"/w=="}}`), []string{"a: /w==", "b: two"}, []string{"one"}},
		"a label": {merge(t, `{"metadata":{"labels":{"x":"y"}}}`), []string{"a: one # first", "b: two", "c: dGhyZWU="},
			nil},
	} {
		w, dir := newWriter(t, map[string]string{"login.yaml": before})
		if _, err := update(t, w, login, false, c.patch); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := read(t, dir, "login.yaml")
		for _, s := range c.want {
			if !strings.Contains(got, s) {
				t.Errorf("%s: no %q in\n%s", name, s, got)
			}
		}
		for _, s := range c.lost {
			if strings.Contains(got, s) {
				t.Errorf("%s: %q in\n%s", name, s, got)
			}
		}
	}
	w, _ := newWriter(t, map[string]string{"login.yaml": before + "immutable: true\n"})
	if _, err := update(t, w, login, false, merge(t, `{"data":{"a":"bmV3"}}`)); err == nil ||
		!strings.Contains(err.Error(), "immutable") {
		t.Errorf("an immutable Secret: %v", err)
	}
	if _, err := update(t, w, login, false, merge(t, `{"metadata":{"labels":{"x":"y"}}}`)); err != nil {
		t.Errorf("a label of an immutable Secret: %v", err)
	}
}

// One writer goes through the API, the other one is podstead apply: after 1,000 rounds no change
// of either is lost.
func TestTwoWriters(t *testing.T) {
	const rounds = 500
	w, dir := newWriter(t, map[string]string{"web.yaml": webPod})
	count := func(object map[string]any, key string) int {
		metadata, _ := object["metadata"].(map[string]any)
		labels, _ := metadata["labels"].(map[string]any)
		text, _ := labels[key].(string)
		n, _ := strconv.Atoi(text)
		return n
	}
	next := func(object map[string]any, key string) map[string]any {
		return objectpatch.Merge(object,
			map[string]any{"metadata": map[string]any{"labels": map[string]any{key: strconv.Itoa(count(object, key) + 1)}}})
	}
	byHand := func(ctx context.Context) error {
		d, err := edit.Read(dir)
		if err != nil {
			return err
		}
		found, err := d.Find(web)
		if err != nil {
			return err
		}
		doc, err := edit.New(next(found.Value, "hand"))
		if err != nil {
			return err
		}
		if _, err := d.Merge(doc); err != nil {
			return err
		}
		return d.Commit(ctx)
	}
	var both sync.WaitGroup
	both.Go(func() {
		for done := 0; done < rounds; {
			d, err := w.Find(objectwrite.Ref(web))
			if err != nil {
				t.Error(err)
				return
			}
			object := objectpatch.Merge(next(d.Object, "api"),
				map[string]any{"metadata": map[string]any{"resourceVersion": "7"}})
			view := objectwrite.View{Name: "web", DeclaredName: "web", FullName: "web-n1", ResourceVersion: "7",
				Digest: d.Digest}
			view.UID = d.Object["metadata"].(map[string]any)["uid"].(string)
			_, err = w.Update(t.Context(), objectwrite.Ref(web),
				objectwrite.Update{Patch: objectpatch.Patch{Object: object}, View: view}, objectwrite.Options{})
			switch {
			case err == nil:
				done++
			case objectwrite.ReasonOf(err) != objectwrite.Conflict: // is reported to the client, which tries again
				t.Error(err)
				return
			}
		}
	})
	both.Go(func() {
		for done := 0; done < rounds; {
			switch err := byHand(t.Context()); {
			case err == nil:
				done++
			case !errors.Is(err, edit.ErrChanged):
				t.Error(err)
				return
			}
		}
	})
	both.Wait()
	d, err := w.Find(objectwrite.Ref(web))
	if err != nil {
		t.Fatal(err)
	}
	if api, hand := count(d.Document, "api"), count(d.Document, "hand"); api != rounds || hand != rounds {
		t.Errorf("%d changes of the API and %d by hand; want %d of each", api, hand, rounds)
	}
	if got := read(t, dir, "web.yaml"); !strings.Contains(got, "# pinned") ||
		!strings.Contains(got, fmt.Sprintf("%q", strconv.Itoa(rounds))) {
		t.Errorf("got\n%s", got)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("files: %v, %v", left, err)
	}
}

// The HTTP server recovers from a panic of a handler: later writes must not wait for this one.
func TestPanicDoesNotBlockLaterWrites(t *testing.T) {
	w, _ := newWriter(t, map[string]string{"web.yaml": webPod})
	w.cfg.Grace = func(types.UID, *int64) { panic("odd input") }
	seconds := int64(1)
	func() {
		defer func() { _ = recover() }()
		_, _ = w.remove(t.Context(), web, false, &objectwrite.Removal{UID: "u", Grace: &seconds})
	}()
	if !w.mu.TryLock() {
		t.Fatal("the writer is still locked")
	}
	w.mu.Unlock()
}

// The document of an item is the List, which declares other objects: it must not be shown as one.
func TestItemsOfAListAreRefused(t *testing.T) {
	const list = "apiVersion: v1\nkind: List\nitems:\n" +
		"- {apiVersion: v1, kind: Pod, metadata: {name: other}, spec: {containers: [{name: main, image: b}]}}\n" +
		"- {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main, image: a}]}}\n"
	w, dir := newWriter(t, map[string]string{"list.yaml": list})
	if d, err := w.Find(objectwrite.Ref(web)); !errors.Is(err, ErrRefused) ||
		!strings.Contains(err.Error(), "is an item of a list in") {
		t.Errorf("%v, %v", err, d.Object)
	}
	if _, err := update(t, w, web, false, merge(t, `{"metadata":{"labels":{"a":"b"}}}`)); !errors.Is(err, ErrRefused) {
		t.Errorf("an update: %v", err)
	}
	if _, err := w.remove(t.Context(), web, false, &objectwrite.Removal{}); !errors.Is(err, ErrRefused) {
		t.Errorf("a deletion: %v", err)
	}
	if got := read(t, dir, "list.yaml"); got != list {
		t.Errorf("got\n%s", got)
	}
}

// A block scalar keeps the blank lines at the end of its document, and the change its comments.
func TestKeptLinesAtTheEnd(t *testing.T) {
	const before = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: c} # site\ndata:\n  k: old\n  l: |+\n    text\n\n\n"
	c := manifest.ObjectRef{Kind: manifest.KindConfigMap, Namespace: "default", Name: "c"}
	for _, after := range []string{"", "---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: d}\n", "# foot\n"} {
		w, dir := newWriter(t, map[string]string{"c.yaml": before + after})
		d, err := w.Find(objectwrite.Ref(c))
		if data, _ := d.Object["data"].(map[string]any); err != nil || data["l"] != "text\n\n\n" {
			t.Errorf("%q: %v, %q", after, err, data)
		}
		if _, err := update(t, w, c, false, merge(t, `{"data":{"k":"new"}}`)); err != nil {
			t.Errorf("%q: %v", after, err)
		}
		if got := read(t, dir, "c.yaml"); got != strings.Replace(before, "old", "new", 1)+after {
			t.Errorf("%q:\n%q", after, got)
		}
	}
}
