package validation

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidatePod judges a defaulted pod as the API server (v1.36) judges one that is
// created and the kubelet one that it reads from a file, and returns every
// fault it finds, each with a detail that says what would be right. The name
// and namespace are judged as the manifest has them: an empty namespace is
// fine, since it becomes "default".
//
// The faults are those of the API server; where its field path is too vague to
// find the line by (a missing index, a name that is not the field's), the path
// here is the exact one. The test module test/oracle compares the two and
// lists every difference.
func ValidatePod(pod *v1.Pod) field.ErrorList {
	v := &validator{
		meta:      &pod.ObjectMeta,
		spec:      &pod.Spec,
		volumes:   map[string]*v1.VolumeSource{},
		hostUsers: pod.Spec.HostUsers == nil || *pod.Spec.HostUsers,
	}
	spec := field.NewPath("spec")
	v.metadata(field.NewPath("metadata"))
	v.podVolumes(spec.Child("volumes"))
	v.podClaims(spec.Child("resourceClaims"))
	v.containers(spec)
	v.podResources(spec.Child("resources"))
	v.podSpec(spec)
	v.podNetwork(spec)
	v.podScheduling(spec)
	v.podSecurity(spec)
	v.podOS(spec)
	return v.errs
}

// validator collects the faults of one pod. What it knows of the pod as a
// whole is what the rules of its parts refer to.
type validator struct {
	errs field.ErrorList
	meta *metav1.ObjectMeta
	spec *v1.PodSpec
	// volumes are those declared, by name.
	volumes map[string]*v1.VolumeSource
	// claims are the names in spec.resourceClaims.
	claims []string
	// hostUsers is false for a pod with a user namespace of its own.
	hostUsers bool
}

// add keeps faults, some of them found by rules of apimachinery that do not say
// what would be right.
func (v *validator) add(errs ...*field.Error) {
	for _, err := range errs {
		if err.Type == field.ErrorTypeRequired && err.Detail == "" {
			err.Detail = "must not be empty"
		}
		v.errs = append(v.errs, err)
	}
}

// addInOrder is add for the faults of a map, which come in any order.
func (v *validator) addInOrder(errs field.ErrorList) {
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	v.add(errs...)
}

// sortedMap goes through a map by its keys, so that faults always come in the
// same order.
func sortedMap[M ~map[K]V, K cmp.Ordered, V any](m M) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

func (v *validator) required(path *field.Path, detail string) {
	v.add(field.Required(path, detail))
}

func (v *validator) invalid(path *field.Path, value any, detail string) {
	v.add(field.Invalid(path, value, detail))
}

func (v *validator) forbidden(path *field.Path, detail string) {
	v.add(field.Forbidden(path, detail))
}

func (v *validator) duplicate(path *field.Path, value any, detail string) {
	err := field.Duplicate(path, value)
	err.Detail = detail
	v.add(err)
}

func (v *validator) notFound(path *field.Path, value any, detail string) {
	err := field.NotFound(path, value)
	err.Detail = detail
	v.add(err)
}

// rules adds one fault for each message of a rule of apimachinery, which says
// in words what would be right.
func (v *validator) rules(path *field.Path, value any, messages []string) {
	for _, message := range messages {
		v.invalid(path, value, message)
	}
}

func (v *validator) dnsLabel(path *field.Path, value string) {
	v.rules(path, value, utilvalidation.IsDNS1123Label(value))
}

func (v *validator) dnsSubdomain(path *field.Path, value string) {
	v.rules(path, value, validation.NameIsDNSSubdomain(value, false))
}

func (v *validator) qualifiedName(path *field.Path, value string) {
	v.rules(path, value, utilvalidation.IsQualifiedName(value))
}

// set reports whether a required string is there.
func (v *validator) requireSet(path *field.Path, value, detail string) bool {
	if value == "" {
		v.required(path, detail)
		return false
	}
	return true
}

func (v *validator) notNegative(path *field.Path, value int64) {
	if value < 0 {
		v.invalid(path, value, "must be 0 or more")
	}
}

func (v *validator) inRange(path *field.Path, value, least, most int64) {
	if value < least || value > most {
		v.invalid(path, value, fmt.Sprintf("must be between %d and %d", least, most))
	}
}

// fileMode judges the permission bits of a file that a volume makes.
func (v *validator) fileMode(path *field.Path, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		v.invalid(path, *mode, "must be a file mode between 0 and 0777 (octal; 0 and 511 in JSON)")
	}
}

// oneOf judges a field that holds one of a few words.
func oneOf[T ~string](v *validator, path *field.Path, value T, valid ...T) {
	if !slices.Contains(valid, value) {
		v.add(field.NotSupported(path, value, valid))
	}
}

// requiredOneOf is oneOf for a field that cannot be left out.
func requiredOneOf[T ~string](v *validator, path *field.Path, value T, valid ...T) {
	if value == "" {
		v.required(path, "must be one of "+quotedList(valid))
		return
	}
	oneOf(v, path, value, valid...)
}

// optionalOneOf is oneOf for a field that may be absent.
func optionalOneOf[T ~string](v *validator, path *field.Path, value *T, valid ...T) {
	if value != nil {
		oneOf(v, path, *value, valid...)
	}
}

func quotedList[T ~string](words []T) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = fmt.Sprintf("%q", string(word))
	}
	return strings.Join(quoted, ", ")
}

// eachContainer visits the containers of all kinds, with their paths.
func (v *validator) eachContainer(spec *field.Path, visit func(path *field.Path, c *v1.Container)) {
	for i := range v.spec.InitContainers {
		visit(spec.Child("initContainers").Index(i), &v.spec.InitContainers[i])
	}
	for i := range v.spec.Containers {
		visit(spec.Child("containers").Index(i), &v.spec.Containers[i])
	}
}
