package cri

import (
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
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
		if got, err := Expand(text, values); got != want || err != nil {
			t.Errorf("Expand(%q) = %q, %v, want %q", text, got, err, want)
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
	got, _, err := expandCommand(&v1.Container{Command: []string{"$(A)", "$(B)"}},
		[]EnvVar{{"A", "1"}, {"B", "2"}, {"A", "3"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"3", "2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, args, err := expandCommand(&v1.Container{}, nil); got != nil || args != nil || err != nil {
		t.Errorf("got %q, want nil: an empty command is the image's", got)
	}
}

// What Linux starts no process with is an error, and does not take the memory.
func TestExpandIsBounded(t *testing.T) {
	long := map[string]string{"A": strings.Repeat("a", MaxExpanded)}
	if got, err := Expand("$(A)", long); err != nil || len(got) != MaxExpanded {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for name, expand := range map[string]func() (string, error){
		"Expand":         func() (string, error) { return Expand(strings.Repeat("$(A)", 100_000), long) },
		"ExpandStrictly": func() (string, error) { return ExpandStrictly(strings.Repeat("$(A)", 100_000), long) },
	} {
		if got, err := expand(); !errors.Is(err, ErrExpanded) || len(got) > 3*MaxExpanded {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	env := []EnvVar{{"A", long["A"]}}
	if _, _, err := expandCommand(&v1.Container{Command: []string{"x"}, Args: []string{"y", "$(A)z"}},
		env); !errors.Is(err, ErrExpanded) || !strings.HasPrefix(err.Error(), "args[1] expands to") {
		t.Errorf("one argument: %v", err)
	}
	if _, _, err := expandCommand(&v1.Container{Args: slices.Repeat([]string{"$(A)"}, 1000)}, env); !errors.Is(err,
		ErrEnvironment) {
		t.Errorf("all arguments: %v", err)
	}
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"$(A)", "$$(A)", "$(", "a$", "$$$", "$(A$(B))"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// Without values only escapes change the text.
		got, _ := Expand(text, nil)
		if len(got) > len(text) {
			t.Errorf("Expand(%q) = %q grew", text, got)
		}
	})
}
