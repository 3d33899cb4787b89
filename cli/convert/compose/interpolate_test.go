package compose

import (
	"slices"
	"strings"
	"testing"
)

func TestVariables(t *testing.T) {
	var unset []string
	v := variables{
		lookup: func(name string) (string, bool) {
			value, ok := map[string]string{"A": "a", "EMPTY": ""}[name]
			return value, ok
		},
		unset: func(name string) { unset = append(unset, name) },
	}
	for text, want := range map[string]string{
		"x": "x", "$A-${A}": "a-a", "$$A": "$A", "${NO:-d}": "d", "${NO-d}": "d", "${EMPTY:-d}": "d", "${EMPTY-d}": "",
		"${A:+r}": "r", "${EMPTY:+r}": "", "${EMPTY+r}": "r", "${NO+r}": "", "${NO:-${A}-${NO:-x}}": "a-x", "${A:?e}": "a",
		"${EMPTY?e}": "", "$NO": "",
	} {
		if got, err := v.expand(text, 0); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	if !slices.Equal(unset, []string{"NO"}) {
		t.Errorf("reported as not set: %v", unset)
	}
	for text, want := range map[string]string{
		"${NO:?needed}": "needed", "${": "closing brace", "${A": "closing brace", "$1": "dollar sign",
		"${A*b}": "not a variable", "${}": "names no variable", "${A:": "closing brace",
		"${EMPTY:?}": "required", strings.Repeat("${NO:-", 50) + strings.Repeat("}", 50): "too deeply",
	} {
		if got, err := v.expand(text, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want an error with %q", text, got, err, want)
		}
	}
}
