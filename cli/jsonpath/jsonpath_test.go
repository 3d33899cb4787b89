package jsonpath

import (
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"
)

const sample = `{"kind":"List","items":[
 {"metadata":{"name":"web","labels":{"app":"web","a.b/c":"x"}},"spec":{"containers":[{"name":"a","image":"i:1"},{"name":"b","image":"i:2"}]},"n":3,"big":12345678901,"ready":true},
 {"metadata":{"name":"db"},"spec":{"containers":[{"name":"c","image":"i:3"}]},"n":10,"ready":false}]}`

func object(t testing.TB) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(sample), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestExecute covers the template language as it is used on the command line; an
// end-to-end test compares such texts with those of a real kubectl.
func TestExecute(t *testing.T) {
	v := object(t)
	for template, want := range map[string]string{
		`{.kind}`:                                                "List",
		`{$.kind}`:                                               "List",
		`kind is {.kind}!`:                                       "kind is List!",
		`{.items[*].metadata.name}`:                              "web db",
		`{.items[0].metadata.name}`:                              "web",
		`{.items[-1].metadata.name}`:                             "db",
		`{.items[0:1].metadata.name}`:                            "web",
		`{.items[:].n}`:                                          "3 10",
		`{.items[0].metadata.labels.a\.b/c}`:                     "x",
		`{.items[0]['n','big']}`:                                 "3 12345678901",
		`{.items[*]['metadata.name','n']}`:                       "web db 3 10",
		`{.items[0].metadata.labels['a\.b/c']}`:                  "x",
		`{.items[*]['n']}`:                                       "3 10",
		`{..image}`:                                              "i:1 i:2 i:3",
		`{.items[?(@.n>5)].metadata.name}`:                       "db",
		`{.items[?(@.metadata.name=="web")].n}`:                  "3",
		`{.items[?(@.metadata.name!='web')].n}`:                  "10",
		`{.items[?(@.metadata.labels)].n}`:                       "3",
		`{.items[?(@.ready==true)].n}`:                           "3",
		`{.items[0].spec.containers[1].name}`:                    "b",
		`{range .items[*]}{.metadata.name}{"\t"}{.n}{"\n"}{end}`: "web\t3\ndb\t10\n",
		`{range .items[*]}[{range .spec.containers[*]}{.name},{end}]{end}`: "[a,b,][c,]",
		`{.items[0].metadata.labels}`:                                      `{"a.b/c":"x","app":"web"}`,
		`{.nothing.there}`:                                                 "",
		`{.items[0].ready}`:                                                "true",
		`{.items[0].spec.containers[*].name}{" "}{.items[1].n}`:            "a b 10",
	} {
		p, err := Parse(template)
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		for range 2 { // a template can be executed more than once
			var b strings.Builder
			if err := p.Execute(&b, v); err != nil || b.String() != want {
				t.Errorf("%s: %q, %v, want %q", template, b.String(), err, want)
			}
		}
	}
	for _, template := range []string{`{.items[5].n}`, `x{end}`, `{.kind[0]}`} {
		p, err := Parse(template)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Execute(io.Discard, v); err == nil || !strings.Contains(err.Error(), template) {
			t.Errorf("%s: %v, want an error", template, err)
		}
	}
}

func TestParsePath(t *testing.T) {
	v := object(t)
	for _, path := range []string{"{.items[0].n}", ".items[0].n", "items[0].n", "$.items[0].n", " {.items[0].n} "} {
		p, err := ParsePath(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got := p.Texts(v); len(got) != 1 || got[0] != "3" {
			t.Errorf("%s finds %q", path, got)
		}
	}
	for _, path := range []string{".items[5].n", ".nothing"} {
		p, err := ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Texts(v); len(got) != 0 {
			t.Errorf("%s finds %q, want nothing", path, got)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, template := range []string{`{.a`, `{.a[}`, `{.a['b}`, `{.a[1:2:3:4]}`, `{.a[0}`} {
		if _, err := Parse(template); err == nil || !strings.Contains(err.Error(), "jsonpath ") {
			t.Errorf("%s: %v, want an error", template, err)
		}
	}
	if _, err := ParsePath(" "); err == nil {
		t.Error("an empty path is accepted")
	}
}
