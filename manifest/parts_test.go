package manifest

import (
	"fmt"
	"strings"
	"testing"
)

func TestPartsCoverTheContentOfEachDocument(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"one": {"# head\n\nkind: Pod\nmetadata: {name: a}\n# foot\n",
			[]string{"Pod default/a: kind: Pod\nmetadata: {name: a}\n"}},
		"several": {"kind: Pod\nmetadata: {name: a}\n---\n# b\nkind: ConfigMap\nmetadata: {name: b, namespace: " +
			"x}\n...\n# end\n", []string{"Pod default/a: kind: Pod\nmetadata: {name: a}\n",
			"ConfigMap x/b: kind: ConfigMap\nmetadata: {name: b, namespace: x}\n"}},
		"on the marker": {"--- {kind: Pod, metadata: {name: a}}\n",
			[]string{"Pod default/a: {kind: Pod, metadata: {name: a}}\n"}},
		"directive": {"%YAML 1.1\n---\nkind: Pod\nmetadata: {name: a}\n",
			[]string{"Pod default/a: kind: Pod\nmetadata: {name: a}\n"}},
		"block scalar": {"kind: ConfigMap\nmetadata: {name: a}\ndata:\n  run: |\n    echo\n    # last\n\n# foot\n",
			[]string{"ConfigMap default/a: kind: ConfigMap\nmetadata: {name: a}\ndata:\n  run: |\n    echo\n    # last\n"}},
		"kept lines": {"kind: ConfigMap\nmetadata: {name: a}\ndata:\n  run: |+ # all\n    echo\n\n\n# foot\n\n",
			[]string{"ConfigMap default/a: kind: ConfigMap\nmetadata: {name: a}\ndata:\n  run: |+ # all\n    echo\n\n\n"}},
		"no line break": {"kind: Pod\nmetadata: {name: a}", []string{"Pod default/a: kind: Pod\nmetadata: {name: a}"}},
		"JSON": {`{"kind": "Pod", "metadata": {"name": "a"}} {"kind": "Pod", "metadata": {"name": "b"}}` + "\n",
			[]string{`Pod default/a: {"kind": "Pod", "metadata": {"name": "a"}}`,
				`Pod default/b: {"kind": "Pod", "metadata": {"name": "b"}}`}},
		"list": {"kind: List\nitems:\n- {kind: Pod, metadata: {name: a}}\n- {kind: PriorityClass, metadata: " +
			"{name: b}}\n", []string{"Pod default/a+PriorityClass b: kind: List\nitems:\n- {kind: Pod, metadata: {name: " +
			"a}}\n- {kind: PriorityClass, metadata: {name: b}}\n"}},
		"pod list": {"kind: PodList\nitems:\n- {metadata: {name: a}}\n",
			[]string{"Pod default/a: kind: PodList\nitems:\n- {metadata: {name: a}}\n"}},
		"broken between": {"kind: Pod\nmetadata: {name: a}\n---\na: [\n---\nkind: Pod\nmetadata: {name: c}\n",
			[]string{"Pod default/a: kind: Pod\nmetadata: {name: a}\n", "Pod default/c: kind: Pod\nmetadata: {name: c}\n"}},
		"byte mark": {"\ufeffkind: Pod\nmetadata: {name: a}\n",
			[]string{"Pod default/a: kind: Pod\nmetadata: {name: a}\n"}},
		"only comments": {"# nothing\n---\n", nil},
	} {
		parts, faults := Parts("x.yaml", []byte(c.text))
		if (len(faults) > 0) != strings.Contains(name, "broken") {
			t.Errorf("%s: faults %v", name, faults)
		}
		var got []string
		for _, p := range parts {
			var refs []string
			for _, ref := range p.Refs {
				refs = append(refs, ref.String())
			}
			got = append(got, strings.Join(refs, "+")+": "+c.text[p.Start:p.End])
			if p.Begin > p.Start || p.JSON != (name == "JSON") || p.List != strings.Contains(name, "list") {
				t.Errorf("%s: part %+v", name, p)
			}
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, c.want)
		}
	}
}
