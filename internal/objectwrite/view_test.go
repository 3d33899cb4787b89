package objectwrite

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/objectpatch"
)

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	o, err := objectpatch.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A client that names what it has seen changes nothing else, also if another writer was faster after the request
// was checked.
func TestApplyChecksWhatTheClientHasSeen(t *testing.T) {
	view := View{
		Name: "web", DeclaredName: "web", FullName: "web-n1", Namespace: "default", UID: "u1", ResourceVersion: "9", Since: 5,
		Until: 9, Digest: "d1",
		Ephemeral: []any{map[string]any{"name": "debug"}}, Status: map[string]any{"phase": "Running"},
	}
	object := decoded(t, `{"kind":"Pod","metadata":{"name":"web-n1","namespace":"default"},"spec":{"containers":[]}}`)
	for _, c := range []struct {
		name, patch, digest string
		pending             bool
		reason              Reason
		words               string
	}{
		{name: "a label", patch: `{"metadata":{"labels":{"a":"b"}}}`, digest: "d2"},
		{name: "the newest version", patch: `{"metadata":{"resourceVersion":"9"}}`, digest: "d1"},
		{name: "a version of the same revision", patch: `{"metadata":{"resourceVersion":"5"}}`, digest: "d1"},
		{name: "an older version", patch: `{"metadata":{"resourceVersion":"4"}}`, digest: "d1", reason: Conflict,
			words: "resourceVersion 4"},
		{name: "no number", patch: `{"metadata":{"resourceVersion":"x"}}`, digest: "d1", reason: Conflict,
			words: "resourceVersion x"},
		{name: "another manifest", patch: `{"metadata":{"resourceVersion":"9"}}`, digest: "d2", reason: Conflict,
			words: "get it again"},
		{name: "not read yet", patch: `{"metadata":{"resourceVersion":"9"}}`, digest: "d1", pending: true, reason: Conflict,
			words: "has not read it yet"},
		{name: "the uid", patch: `{"metadata":{"uid":"u1"}}`, digest: "d1"},
		{name: "the uid of another manifest", patch: `{"metadata":{"uid":"u1"}}`, digest: "d2", reason: Conflict,
			words: "replaced meanwhile"},
		{name: "another uid", patch: `{"metadata":{"uid":"u0"}}`, digest: "d1", reason: Conflict, words: "not u0"},
		{name: "the ephemeral containers as shown", patch: `{"spec":{"ephemeralContainers":[{"name":"debug"}]}}`,
			digest: "d1"},
		{name: "other ephemeral containers", patch: `{"spec":{"ephemeralContainers":[{"name":"x"}]}}`, digest: "d1",
			reason: Invalid, words: "a manifest cannot have them"},
		{name: "another name", patch: `{"metadata":{"name":"db"}}`, digest: "d1", reason: Invalid, words: "metadata.name"},
		{name: "no metadata", patch: `{"metadata":null}`, digest: "d1", reason: Invalid, words: "metadata"},
	} {
		d := Declared{Object: object, Document: object, Digest: c.digest, Pending: c.pending}
		before := maps.Clone(object)
		p := objectpatch.Patch{Type: types.MergePatchType, Object: decoded(t, c.patch)}
		got, _, err := view.Apply(&p, &d)
		if c.words == "" {
			if err != nil || got["spec"].(map[string]any)["ephemeralContainers"] != nil {
				t.Errorf("%s: %v, %v", c.name, err, got)
			}
		} else if err == nil || ReasonOf(err) != c.reason || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q", c.name, err, c.words)
		}
		if len(before) != len(object) || object["status"] != nil {
			t.Errorf("%s: the declared object was changed", c.name)
		}
	}
}

// Of two clients that add an ephemeral container to the pod that they were both shown, one gets a conflict.
func TestApplyLiveChecksWhatTheClientHasSeen(t *testing.T) {
	view := View{Name: "web", DeclaredName: "web", FullName: "web-n1", UID: "u1", ResourceVersion: "9", Since: 9, Until: 9}
	for live, want := range map[string]Reason{
		`{"metadata":{"name":"web-n1"},"spec":{}}`:                                          Internal,
		`{"metadata":{"name":"web-n1"},"spec":{"ephemeralContainers":[{"name":"faster"}]}}`: Conflict,
	} {
		p := objectpatch.Patch{Object: decoded(t,
			`{"metadata":{"name":"web-n1","resourceVersion":"9"},"spec":{"ephemeralContainers":[{"name":"debug"}]}}`)}
		if _, err := view.ApplyLive(&p, decoded(t, live)); ReasonOf(err) != want || (err == nil) != (want == Internal) {
			t.Errorf("%s: %v", live, err)
		}
	}
}
