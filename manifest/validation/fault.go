package validation

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// FieldFault is one thing wrong with a field of a Pod or of another object.
type FieldFault struct {
	// Path is the field path, such as spec.containers[0].image; empty for the
	// object itself.
	Path string
	// Problem reports what is wrong. Remedy reports what would be right; it is empty
	// if Problem already does.
	Problem, Remedy string
	// Lenient marks a fault that the caller's validation mode decides on.
	// Other faults are fatal, unless they are warnings.
	Lenient bool
	// Warning marks a fault that never rejects the object.
	Warning bool
	// Line is the line of the fault if it differs from that of the path; 0 if
	// it does not.
	Line int

	// meant is the path of the field that was most likely meant.
	meant string
	// kind is the type of the error that CheckPod or CheckObject found.
	kind field.ErrorType
}

// CheckPod returns everything that is wrong with a defaulted pod: unsupported
// fields and invalid values, each of them once.
func CheckPod(pod *v1.Pod) []FieldFault {
	var faults []FieldFault
	unsupported := Unsupported(pod)
	for _, err := range unsupported {
		faults = append(faults, faultOf(err))
	}
	outer := newPathSet(unsupported)
	errs := ValidatePod(pod)
	limits := limitErrors(errs)
	for _, err := range errs {
		if err.Field == "metadata.name" && pod.Name == "" {
			continue
		}
		if !outer.contains(err.Field) && !repeatsLimit(err, limits) {
			faults = append(faults, faultOf(err))
		}
	}
	if pod.Name == "" {
		// Unlike the API server, a node generates no name from generateName.
		faults = append(faults, FieldFault{Path: "metadata.name", Problem: "is missing",
			Remedy: "must be the pod's name, such as web"})
	}
	return faults
}

// CheckObject returns everything that is wrong with a defaulted ConfigMap,
// Secret, PersistentVolumeClaim, Service, PriorityClass, RuntimeClass, PersistentVolume or
// StorageClass. No fault quotes the data of a Secret.
func CheckObject(kind string, object metav1.Object) []FieldFault {
	errs := validateObject(kind, object)
	faults := make([]FieldFault, 0, len(errs))
	for _, err := range errs {
		faults = append(faults, faultOf(err))
	}
	return faults
}

// pathSet is a set of field paths. Its lookups take time by the length of a path, not
// by the number of members, since a manifest may have thousands of faults.
type pathSet struct {
	paths   map[string]bool
	lengths map[int]bool
}

func newPathSet(errs field.ErrorList) pathSet {
	s := pathSet{paths: make(map[string]bool, len(errs)), lengths: map[int]bool{}}
	for _, err := range errs {
		s.paths[err.Field] = true
		s.lengths[len(err.Field)] = true
	}
	return s
}

// contains reports whether a path is at or below a member.
func (s pathSet) contains(path string) bool {
	for length := range s.lengths {
		if length <= len(path) && isWithin(path, path[:length]) && s.paths[path[:length]] {
			return true
		}
	}
	return false
}

// limitErrors returns the errors of limits by their paths.
func limitErrors(errs field.ErrorList) map[string]field.ErrorList {
	limits := map[string]field.ErrorList{}
	for _, err := range errs {
		if strings.Contains(err.Field, ".limits[") {
			limits[err.Field] = append(limits[err.Field], err)
		}
	}
	return limits
}

// repeatsLimit reports whether the error is about a request that defaulting
// copied from a limit with the same error.
func repeatsLimit(err *field.Error, limits map[string]field.ErrorList) bool {
	before, key, ok := strings.Cut(err.Field, ".requests[")
	return ok && slices.ContainsFunc(limits[before+".limits["+key], func(other *field.Error) bool {
		return other.Type == err.Type && other.Detail == err.Detail && other.BadValue == err.BadValue
	})
}

// isWithin reports whether a path is equal to another or lies below it.
func isWithin(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || outer == "" || rest[0] == '.' || rest[0] == '[')
}

// WithoutConsequences returns the faults that do not follow from one of the
// causes: a misspelled field is also missing, and what it would have declared
// is not found.
func WithoutConsequences(faults, causes []FieldFault) []FieldFault {
	var independent []FieldFault
	for _, fault := range faults {
		if !isConsequence(fault, causes) {
			independent = append(independent, fault)
		}
	}
	return independent
}

func isConsequence(fault FieldFault, causes []FieldFault) bool {
	for _, cause := range causes {
		switch {
		case isWithin(fault.Path, cause.Path),
			cause.meant != "" && isWithin(fault.Path, cause.meant),
			fault.kind == field.ErrorTypeRequired && isWithin(cause.Path, fault.Path),
			fault.kind == field.ErrorTypeNotFound && !isInContainer(cause.Path):
			return true
		}
	}
	return false
}

// isInContainer reports whether a path leads into a container, which declares
// nothing that another field refers to.
func isInContainer(path string) bool {
	return strings.HasPrefix(path, "spec.containers[") || strings.HasPrefix(path, "spec.initContainers[")
}

// faultOf phrases a validation error. The detail of the error reports what would
// be right.
func faultOf(err *field.Error) FieldFault {
	fault := FieldFault{Path: err.Field, kind: err.Type, Remedy: withoutPattern(err.Detail)}
	value := quoteBadValue(err.BadValue)
	switch err.Type {
	case field.ErrorTypeRequired:
		fault.Problem = "is missing"
	case field.ErrorTypeForbidden:
		fault.Problem, fault.Remedy, _ = strings.Cut(fault.Remedy, "; ")
	case field.ErrorTypeNotFound:
		fault.Problem = value + " is not declared"
	case field.ErrorTypeDuplicate:
		fault.Problem = value + " is a duplicate"
	case field.ErrorTypeNotSupported:
		fault.Problem = value + " is not supported"
	case field.ErrorTypeInvalid, field.ErrorTypeTypeInvalid:
		fault.Problem = value + " is not valid"
	case field.ErrorTypeTooLong:
		fault.Problem = "is too long"
	case field.ErrorTypeTooMany:
		fault.Problem = "has too many items"
	default:
		fault.Problem, fault.Remedy = err.ErrorBody(), ""
	}
	fault.Problem = strings.TrimSpace(fault.Problem)
	return fault
}

// withoutPattern removes the regular expression from a message of apimachinery,
// whose words and examples say the same.
func withoutPattern(message string) string {
	words, rest, found := strings.Cut(message, ", regex used for validation is '")
	if !found {
		return message
	}
	_, more, _ := strings.Cut(rest, "')")
	return strings.ReplaceAll(words, ",  or", ", or") + ")" + withoutPattern(more)
}

// DescribeRules joins the messages of a validation function of apimachinery
// and leaves out their regular expressions.
func DescribeRules(messages []string) string { return withoutPattern(strings.Join(messages, "; ")) }

// quoteBadValue returns a value as the author wrote it; empty for one that is
// not a scalar.
func quoteBadValue(value any) string {
	v := reflect.ValueOf(value)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if stringer, ok := value.(fmt.Stringer); ok && v.Kind() == reflect.Struct {
		return Quote(stringer.String())
	}
	switch v.Kind() {
	case reflect.String:
		return Quote(v.String())
	case reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64:
		return fmt.Sprint(v.Interface())
	}
	return ""
}

// maxQuoted is how many characters of a value a fault quotes.
const maxQuoted = 100

// Quote quotes a value for a message: on one line, and shortened if it is long.
func Quote(text string) string {
	if runes := []rune(text); len(runes) > maxQuoted {
		return strconv.Quote(string(runes[:maxQuoted])) + "…"
	}
	return strconv.Quote(text)
}

// JoinPath appends a field, or a path that begins with a bracket, to a path.
func JoinPath(path, field string) string {
	if path == "" || field == "" || field[0] == '[' {
		return path + field
	}
	return path + "." + field
}
