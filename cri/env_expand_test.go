package cri

import (
	"slices"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "1", "B": "$(A)", "EMPTY": "", "": "nameless"}
	for text, want := range map[string]string{
		"":               "",
		"plain":          "plain",
		"$(A)":           "1",
		"x$(A)y$(A)z":    "x1y1z",
		"$(B)":           "$(A)", // a value is not expanded again
		"$(EMPTY)":       "",
		"$(MISSING)":     "$(MISSING)",
		"$()":            "nameless",
		"$$(A)":          "$(A)",
		"$$$(A)":         "$1",
		"$$$$(A)":        "$$(A)",
		"$$":             "$",
		"$":              "$",
		"$A":             "$A",
		"${A}":           "${A}",
		"$(A":            "$(A",
		"$(A$(A)":        "$(A$(A)",
		"$(A) $(":        "1 $(",
		"100$ and $(A)":  "100$ and 1",
		"$(A)$":          "1$",
		"$ü$(A)":         "$ü1",
		"$(MISSING)$(A)": "$(MISSING)1",
	} {
		if got := Expand(text, values); got != want {
			t.Errorf("Expand(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestExpandStrictly(t *testing.T) {
	values := map[string]string{"A": "1", "EMPTY": ""}
	for text, want := range map[string]string{"$(A)/$(EMPTY)x": "1/x", "$$(MISSING)": "$(MISSING)", "plain": "plain"} {
		if got, err := ExpandStrictly(text, values); err != nil || got != want {
			t.Errorf("ExpandStrictly(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	if _, err := ExpandStrictly("$(A)/$(MISSING)", values); err == nil || !strings.Contains(err.Error(), `"MISSING"`) {
		t.Errorf("error %v does not name the missing variable", err)
	}
}

func TestExpandAllTakesTheLastValue(t *testing.T) {
	got := expandAll([]string{"$(A)", "$(B)"}, []EnvVar{{"A", "1"}, {"B", "2"}, {"A", "3"}})
	if want := []string{"3", "2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := expandAll(nil, nil); got != nil {
		t.Errorf("got %q, want nil: an empty command is the image's", got)
	}
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"$(A)", "$$(A)", "$(", "a$", "$$$", "$(A$(B))"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// Without values only escapes change the text.
		got := Expand(text, nil)
		if len(got) > len(text) {
			t.Errorf("Expand(%q) = %q grew", text, got)
		}
	})
}
