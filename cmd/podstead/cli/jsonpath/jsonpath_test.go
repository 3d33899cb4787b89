package jsonpath

import (
	"encoding/json"
	"strings"
	"testing"
)

const sample = `{"kind":"List","items":[
 {"metadata":{"name":"web","labels":{"app":"web","a.b/c":"x"}},"spec":{"containers":[{"name":"a","image":"i:1"},{"name":"b","image":"i:2"}]},"n":3,"big":12345678901,"ready":true},
 {"metadata":{"name":"db"},"spec":{"containers":[{"name":"c","image":"i:3"}]},"n":10,"ready":false}]}`

func object(t *testing.T) any {
	t.Helper()
	var v any
	d := json.NewDecoder(strings.NewReader(sample))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestKubectl compares such texts with those of a real kubectl.
func TestText(t *testing.T) {
	v := object(t)
	for template, want := range map[string]string{
		`{.kind}`:                                                "List",
		`{$.kind}`:                                               "List",
		`kind is {.kind}!`:                                       "kind is List!",
		`{.items[*].metadata.name}`:                              "web db",
		`{.items[0].metadata.name}`:                              "web",
		`{.items[-1].metadata.name}`:                             "db",
		`{.items[5].metadata.name}`:                              "",
		`{.items[0:1].metadata.name}`:                            "web",
		`{.items[:].n}`:                                          "3 10",
		`{.items[0].metadata.labels.a\.b/c}`:                     "x",
		`{.items[0].metadata.labels['a.b/c']}`:                   "x",
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
		`{range .items[?(@.n>=3)]}{.metadata.name} {$.kind} {end}`:         "web List db List ",
		`{.items[0].spec.containers[*].name}{" "}{.items[1].n}`:            "a b 10",
		`{.items[*].metadata["labels"].app}`:                               "web",
	} {
		p, err := Parse(template)
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		if got := p.Text(v); got != want {
			t.Errorf("%s: %q, want %q", template, got, want)
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
}

func TestMistakes(t *testing.T) {
	for template, word := range map[string]string{
		`{.a`:            "} is missing",
		`{range .a}x`:    "{end}",
		`x{end}`:         "{range}",
		`{.a[}`:          "index",
		`{.a['b}`:        "not closed",
		`{a}`:            "must be a path",
		`{.a[?(@.b=1)]}`: ")]",
		`{.a[1:2:0]}`:    "1 or more",
		`{}`:             "path",
		`{.a[1:2:3:4]}`:  "from:to:step",
		`{.a[?(@.b==)]}`: "must be a path",
		`{.a[0}`:         "] is missing",
		`{range}{end}`:   "path",
		`{.a(b)}`:        "path",
	} {
		if _, err := Parse(template); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, want %q in it", template, err, word)
		}
	}
	if _, err := ParsePath(" "); err == nil {
		t.Error("an empty path is taken")
	}
}

// What people type ends in a text or an error.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{.items[*].metadata.name}`, `{range .a}{end}`, `{.a[?(@.b=="c")]}`, `{..a[1:2,'x']}`, "{.a\\", `{'`} {
		f.Add(seed)
	}
	var v any
	if err := json.Unmarshal([]byte(sample), &v); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, template string) {
		if p, err := Parse(template); err == nil {
			_ = p.Text(v)
		}
	})
}
