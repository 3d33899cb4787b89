package objectpatch

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	o, err := Decode([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return o
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestStrategic(t *testing.T) {
	const pod = `{"metadata":{"finalizers":["a","b"],"labels":{"x":"1"}},"spec":{"containers":[{"name":"a","image":"a:1","ports":[{"containerPort":80}]},{"name":"b","image":"b:1"}],"tolerations":[{"key":"x"}],"volumes":[{"name":"v","emptyDir":{}}]}}`
	for _, c := range []struct{ patch, want string }{
		{`{"spec":{"$setElementOrder/containers":[{"name":"a"},{"name":"b"}],"containers":[{"name":"b","image":"b:2"}]}}`,
			`"containers":[{"image":"a:1","name":"a","ports":[{"containerPort":80}]},{"image":"b:2","name":"b"}]`},
		{`{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"c"},{"name":"a"}],"containers":[{"name":"c","image":"c:1"}]}}`,
			`"containers":[{"image":"b:1","name":"b"},{"image":"c:1","name":"c"},{"image":"a:1","name":"a","ports":[{"containerPort":80}]}]`},
		{`{"spec":{"containers":[{"$patch":"delete","name":"a"},{"$patch":"delete","name":"none"}]}}`,
			`"containers":[{"image":"b:1","name":"b"}]`},
		{`{"spec":{"containers":[{"$patch":"replace"},{"name":"z","image":"z:1"}]}}`,
			`"containers":[{"image":"z:1","name":"z"}]`},
		{`{"spec":{"containers":[{"name":"a","ports":[{"containerPort":80,"hostPort":8080}]}]}}`,
			`"ports":[{"containerPort":80,"hostPort":8080}]`},
		{`{"spec":{"volumes":[{"$retainKeys":["name","hostPath"],"name":"v","hostPath":{"path":"/x"}}]}}`,
			`"volumes":[{"hostPath":{"path":"/x"},"name":"v"}]`},
		{`{"spec":{"tolerations":[{"key":"y"}]}}`, `"tolerations":[{"key":"y"}]`},
		{`{"metadata":{"labels":{"x":null,"y":"2"}}}`, `"labels":{"y":"2"}`},
		{`{"metadata":{"labels":{"$patch":"replace","z":"3"}}}`, `"labels":{"z":"3"}`},
		{`{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"finalizers":["c"]}}`, `"finalizers":["b","c"]`},
	} {
		before := object(t, pod)
		got, err := Strategic(before, object(t, c.patch), reflect.TypeFor[v1.Pod]())
		if err != nil || !strings.Contains(text(t, got), c.want) {
			t.Errorf("%s: %v\n%s\nwant %s", c.patch, err, text(t, got), c.want)
		}
		if !reflect.DeepEqual(before, object(t, pod)) {
			t.Errorf("%s: the object was changed", c.patch)
		}
	}
	for patch, want := range map[string]string{
		`{"spec":{"containers":[{"image":"x"}]}}`:      "spec: containers: [0]: must have name",
		`{"spec":{"containers":["x"]}}`:                "must be an object",
		`{"$patch":"explode"}`:                         "must be merge, replace or delete",
		`{"spec":{"$setElementOrder/containers":"a"}}`: "must be a list",
	} {
		if _, err := Strategic(object(t, pod), object(t, patch), reflect.TypeFor[v1.Pod]()); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", patch, err, want)
		}
	}
}

func TestMergeAndJSON(t *testing.T) {
	before := object(t, `{"a":{"b":1,"c":2},"d":[1]}`)
	withNull := object(t, `{"n":[null]}`)
	if _, err := JSON(withNull, []byte(`[{"op":"test","path":"/n","value":[null]}]`)); err == nil {
		t.Error("a test of null in a list, which the library cannot compare, succeeded")
	}
	if got := text(t, Merge(before,
		object(t, `{"a":{"b":null,"e":{"f":null,"g":3}},"d":[2]}`))); got != `{"a":{"c":2,"e":{"g":3}},"d":[2]}` {
		t.Error(got)
	}
	got, err := JSON(before,
		[]byte(`[{"op":"test","path":"/a/b","value":1},{"op":"add","path":"/d/-","value":12345678901234567890}]`))
	if err != nil || text(t, got) != `{"a":{"b":1,"c":2},"d":[1,12345678901234567890]}` {
		t.Error(err, text(t, got))
	}
	copies := `[{"op":"add","path":"/x","value":"` + strings.Repeat("x", 1000) + `"}` +
		strings.Repeat(`,{"op":"copy","from":"","path":"/y"}`, 40) + `]`
	for _, bad := range []string{`{}`, `[{"op":"test","path":"/a/b","value":2}]`, `[{"op":"remove","path":"/none"}]`,
		`[{"op":"test","path":""}]`, `[{"op":"replace","path":""}]`, copies,
		"[" + strings.Repeat(`{"op":"add","path":"/x","value":1},`, maxOperations) + `{"op":"add","path":"/x","value":1}]`} {
		if _, err := JSON(before, []byte(bad)); err == nil {
			t.Errorf("%.60s was applied", bad)
		}
	}
}

func TestTransfer(t *testing.T) {
	const document = `{"spec":{"containers":[{"name":"a","image":"a:1","resources":{"limits":{"cpu":1}}}]}}`
	const declared = `{"metadata":{"labels":{}},"spec":{"restartPolicy":"Always","containers":[{"name":"a","image":"a:1","imagePullPolicy":"IfNotPresent","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}}],"securityContext":{}}}`
	for name, c := range map[string]struct{ after, want string }{
		"nothing":            {declared, document},
		"the document again": {document, document},
		"an image": {strings.Replace(declared, "a:1", "a:2", 1),
			`{"spec":{"containers":[{"image":"a:2","name":"a","resources":{"limits":{"cpu":1}}}]}}`},
		"a default": {strings.Replace(declared, "Always", "Never", 1),
			`{"spec":{"containers":[{"image":"a:1","name":"a","resources":{"limits":{"cpu":1}}}],"restartPolicy":"Never"}}`},
		"a field below a default": {strings.Replace(declared, `"securityContext":{}`, `"securityContext":{"runAsUser":1}`, 1),
			`{"spec":{"containers":[{"image":"a:1","name":"a","resources":{"limits":{"cpu":1}}}],"securityContext":{"runAsUser":1}}}`},
		"another container": {
			`{"spec":{"containers":[{"name":"b","image":"b:1"},{"name":"a","image":"a:1","imagePullPolicy":"IfNotPresent","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}}]}}`,
			`{"spec":{"containers":[{"image":"b:1","name":"b"},{"image":"a:1","name":"a","resources":{"limits":{"cpu":1}}}]}}`},
		"a removed field": {`{"spec":{"containers":[{"name":"a","image":"a:1"}]}}`,
			`{"spec":{"containers":[{"image":"a:1","name":"a"}]}}`},
	} {
		got := Transfer(object(t, document), object(t, declared), object(t, c.after), reflect.TypeFor[v1.Pod]())
		if text(t, got) != text(t, object(t, c.want)) {
			t.Errorf("%s:\n%s\nwant\n%s", name, text(t, got), c.want)
		}
	}
}

func FuzzStrategic(f *testing.F) {
	f.Add(`{"spec":{"containers":[{"name":"a","$patch":"delete"}]}}`, `{"spec":{"containers":[{"name":"a"}]}}`)
	f.Fuzz(func(_ *testing.T, patch, pod string) {
		p, err := Decode([]byte(patch))
		o, err2 := Decode([]byte(pod))
		if err != nil || err2 != nil {
			return
		}
		after, err := Strategic(o, p, reflect.TypeFor[v1.Pod]())
		if err == nil {
			Transfer(o, o, after, reflect.TypeFor[v1.Pod]())
		}
	})
}

// A request has at most 1 MiB: the time to apply it must not grow with its square.
func TestStrategicIsLinear(t *testing.T) {
	const items = 50000
	list := func(format string) string {
		var b strings.Builder
		for i := range items {
			fmt.Fprintf(&b, format, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	for name, patch := range map[string]string{
		"values": `{"metadata":{"finalizers":[` + list(`"%d",`) + `],"$deleteFromPrimitiveList/finalizers":[` +
			list(`"%d",`) + `]}}`,
		"items": `{"spec":{"containers":[` + list(`{"name":"%d"},`) + `]}}`,
		"order": `{"spec":{"containers":[` + list(`{"name":"%d"},`) + `],"$setElementOrder/containers":[` +
			list(`{"name":"x%d"},`) + `]}}`,
	} {
		start := time.Now()
		if _, err := Strategic(object(t, `{"spec":{}}`), object(t, patch), reflect.TypeFor[v1.Pod]()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// It takes less than a second; comparing each with each, minutes.
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%s: %d items took %s", name, items, d)
		}
	}
}

// Items with the same merge key, such as a port of TCP and UDP, are changed one after the other.
func TestItemsWithTheSameKey(t *testing.T) {
	before := object(t,
		`{"spec":{"containers":[{"name":"a","ports":[{"containerPort":53,"protocol":"TCP"},{"containerPort":53,"protocol":"UDP"},{"containerPort":1}]}]}}`)
	for patch, want := range map[string]string{
		`{"containerPort":53,"$patch":"delete"}`:                                        `[{"containerPort":53,"protocol":"UDP"},{"containerPort":1}]`,
		`{"containerPort":53,"$patch":"delete"},{"containerPort":53,"$patch":"delete"}`: `[{"containerPort":1}]`,
		`{"containerPort":53,"$patch":"delete"},{"containerPort":53,"name":"x"}`:        `[{"containerPort":53,"name":"x","protocol":"UDP"},{"containerPort":1}]`,
		`{"containerPort":53,"name":"x"}`:                                               `[{"containerPort":53,"name":"x","protocol":"TCP"},{"containerPort":53,"protocol":"UDP"},{"containerPort":1}]`,
		`{"containerPort":[53],"name":"x"}`:                                             `[{"containerPort":53,"protocol":"TCP"},{"containerPort":53,"protocol":"UDP"},{"containerPort":1},{"containerPort":[53],"name":"x"}]`,
	} {
		got, err := Strategic(before, object(t, `{"spec":{"containers":[{"name":"a","ports":[`+patch+`]}]}}`),
			reflect.TypeFor[v1.Pod]())
		if err != nil || text(t, got) != `{"spec":{"containers":[{"name":"a","ports":`+want+`}]}}` {
			t.Errorf("%s: %v %s", patch, err, text(t, got))
		}
	}
}

func TestDecodeLimitsTheDepth(t *testing.T) {
	deep := func(levels int) string {
		return strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels)
	}
	if _, err := Decode([]byte(deep(maxDepth))); err != nil {
		t.Error(err)
	}
	for _, text := range []string{deep(maxDepth + 1), deep(9000),
		`{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}"} {
		if _, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), "nested too deeply") {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
}

// A patch names a field of the metadata by a path, and not by letters anywhere in it.
func TestNames(t *testing.T) {
	for text, want := range map[string]bool{
		`[{"op":"test","path":"/metadata/uid","value":"u"}]`:                     true,
		`[{"op":"replace","path":"/metadata","value":{"uid":"u"}}]`:              true,
		`[{"op":"replace","path":"","value":{"metadata":{"uid":"u"}}}]`:          true,
		`[{"op":"copy","from":"/metadata/uid","path":"/metadata/labels/a"}]`:     true,
		`[{"op":"replace","path":"/spec/containers/0/image","value":"squid:6"}]`: false,
		`[{"op":"add","path":"/metadata/annotations/fluid","value":"uid"}]`:      false,
		`[{"op":"remove","path":"/metadata/labels/uid"}]`:                        false,
		`{"not":"a patch"}`: false,
	} {
		p := Patch{Type: types.JSONPatchType, Operations: []byte(text)}
		if got := p.Names("uid"); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	p := Patch{Type: types.MergePatchType, Object: map[string]any{"metadata": map[string]any{"uid": "u"}}}
	if !p.Names("uid") || p.Names("resourceVersion") {
		t.Error("a merge patch")
	}
}
