package oracle

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podstead/podstead/manifest/validation"
)

// occurred counts how often each difference occurred in this run.
var occurred = map[string]int{}

// compareDefaults describes how our defaulting of a decoded pod differs.
func compareDefaults(t *testing.T, pod *v1.Pod) string {
	t.Helper()
	ours := pod.DeepCopy()
	validation.SetDefaults(ours)
	once := toJSON(t, ours)
	validation.SetDefaults(ours)
	if again := toJSON(t, ours); again != once {
		return "defaulting is not idempotent:\n" + cmp.Diff(once, again)
	}
	theirs := upstreamDefaults(t, pod)
	theirs.Annotations = maps.Clone(theirs.Annotations)
	for _, d := range defaultDifferences {
		if d.apply(ours, theirs) {
			occurred[d.reason]++
		}
	}
	if want := toJSON(t, theirs); once != want {
		return "defaults differ (- upstream, + ours):\n" + cmp.Diff(want, once)
	}
	return ""
}

// compareFaults describes how our validation of a decoded pod differs in field
// paths and types, apart from the listed differences.
func compareFaults(t *testing.T, pod *v1.Pod) string {
	t.Helper()
	ours := pod.DeepCopy()
	validation.SetDefaults(ours)
	own, theirs := validation.ValidatePod(ours), upstreamFaults(t, pod)
	for _, err := range own {
		if err.Detail == "" && err.Type != field.ErrorTypeNotSupported {
			return fmt.Sprintf("%v does not say what would be valid", err)
		}
		if !isField(err.Field, reflect.TypeFor[v1.Pod]()) {
			return fmt.Sprintf("%v is not at a field of a manifest", err)
		}
	}
	got, want := map[string]bool{}, map[string]bool{}
	for _, err := range own {
		if key := oursAsTheirs(ours, err, theirs); key != "" {
			got[key] = true
		}
	}
	for _, err := range theirs {
		if key := keyOf(err); got[key] || !onlyTheirs(ours, err, theirs) {
			want[key] = true
		}
	}
	if maps.Equal(got, want) {
		return ""
	}
	var lines []string
	for key := range got {
		if !want[key] {
			lines = append(lines, "only ours:   "+key)
		}
	}
	for key := range want {
		if !got[key] {
			lines = append(lines, "only theirs: "+key)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n\nours:\n" + list(own) + "\ntheirs:\n" + list(theirs)
}

// isField reports whether a path leads to a field of a manifest, so that its
// line can be found.
func isField(path string, of reflect.Type) bool {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	path = strings.TrimPrefix(path, ".")
	if path == "" {
		return true
	}
	switch of.Kind() {
	case reflect.Slice:
		_, rest, ok := strings.Cut(path, "]")
		if path[0] != '[' { // apimachinery omits the index of some lists.
			return isField("[0]."+path, of)
		}
		return ok && isField(rest, of.Elem())
	case reflect.Map:
		return path[0] == '[' // A key may contain anything, including brackets.
	case reflect.Struct:
		name, _, _ := strings.Cut(path, ".")
		name, _, _ = strings.Cut(name, "[")
		for i := range of.NumField() {
			f := of.Field(i)
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if tag == name && isField(path[len(name):], f.Type) || tag == "" && f.Anonymous && isField(path, f.Type) {
				return true
			}
		}
	}
	return false
}

func keyOf(err *field.Error) string { return err.Field + " | " + string(err.Type) }

func list(errs field.ErrorList) string {
	var b strings.Builder
	for _, err := range errs {
		text := err.Error()
		fmt.Fprintf(&b, "  %s\n", text[:min(len(text), 300)])
	}
	return b.String()
}

// oursAsTheirs returns where upstream reports one of our errors, empty if it does
// not and is not expected to.
func oursAsTheirs(pod *v1.Pod, err *field.Error, theirs field.ErrorList) string {
	if key := moved(err, theirs, false); key != "" {
		return key
	}
	if reports(theirs, err.Field, err.Type) {
		return keyOf(err)
	}
	if key := moved(err, theirs, true); key != "" {
		return key
	}
	for _, d := range oursOnly {
		if d.is(pod, err, theirs) {
			occurred[d.reason]++
			return ""
		}
	}
	return keyOf(err)
}

// moved returns one of our errors as upstream reports it elsewhere or as another
// type.
func moved(err *field.Error, theirs field.ErrorList, asOtherType bool) string {
	for _, d := range pathDifferences {
		other := d.move(err)
		if other != nil && (d.theirKind != "") == asOtherType && reports(theirs, other.Field, other.Type) {
			occurred[d.reason]++
			return keyOf(other)
		}
	}
	return ""
}

func onlyTheirs(pod *v1.Pod, err *field.Error, theirs field.ErrorList) bool {
	for _, d := range theirsOnly {
		if d.is(pod, err, theirs) {
			occurred[d.reason]++
			return true
		}
	}
	return false
}

// translateAnnotations does what API servers did outside of defaulting.
func translateAnnotations(pod *v1.Pod) { validation.TranslateAnnotations(pod) }
