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

// ValidatePod validates a defaulted pod as the API server (v1.36) does at its
// creation and the kubelet when it reads it from a file. It returns every
// error, each with a detail that reports what would be right. The name and
// namespace are validated as they are in the manifest: an empty namespace is
// valid, since it becomes "default".
//
// The errors are those of the API server, except that the path is exact where
// that of the API server is too vague to find the line (a missing index, a name
// that is not that of the field). The test module test/oracle compares the two
// and lists every difference.
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

// validator collects the errors of one pod, and what the rules need to know of
// the pod as a whole.
type validator struct {
	errs field.ErrorList
	meta *metav1.ObjectMeta
	spec *v1.PodSpec
	// volumes are the declared volumes by name.
	volumes map[string]*v1.VolumeSource
	// claims are the names in spec.resourceClaims.
	claims []string
	// hostUsers is false for a pod with its own user namespace.
	hostUsers bool
}

// add adds errors. Some rules of apimachinery do not say what would be right.
func (v *validator) add(errs ...*field.Error) {
	for _, err := range errs {
		if err.Type == field.ErrorTypeRequired && err.Detail == "" {
			err.Detail = "must not be empty"
		}
		v.errs = append(v.errs, err)
	}
}

// addInOrder is add for the errors of a map, whose order is random.
func (v *validator) addInOrder(errs field.ErrorList) {
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	v.add(errs...)
}

// sortedMap iterates over a map sorted by key, so that errors always have the
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

// rules adds one error for each message of a validation function of
// apimachinery, which reports in words what would be right.
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

// requireSet reports whether a required string is set, and adds an error if it
// is not.
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

// fileMode validates the permission bits of a file that a volume creates.
func (v *validator) fileMode(path *field.Path, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		v.invalid(path, *mode, "must be a file mode between 0 and 0777 (octal; 0 and 511 in JSON)")
	}
}

// oneOf validates an enumeration.
func oneOf[T ~string](v *validator, path *field.Path, value T, valid ...T) {
	if !slices.Contains(valid, value) {
		v.add(field.NotSupported(path, value, valid))
	}
}

// requiredOneOf is oneOf for a required field.
func requiredOneOf[T ~string](v *validator, path *field.Path, value T, valid ...T) {
	if value == "" {
		v.required(path, "must be one of "+quotedList(valid))
		return
	}
	oneOf(v, path, value, valid...)
}

// optionalOneOf is oneOf for an optional field.
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

// eachContainer visits the init containers and containers with their paths.
func (v *validator) eachContainer(spec *field.Path, visit func(path *field.Path, c *v1.Container)) {
	for path, c := range containerPaths(spec, v.spec) {
		visit(path, c)
	}
}

// containerPaths iterates over the init containers and containers with their
// paths.
func containerPaths(path *field.Path, spec *v1.PodSpec) iter.Seq2[*field.Path, *v1.Container] {
	return func(yield func(*field.Path, *v1.Container) bool) {
		for i := range spec.InitContainers {
			if !yield(path.Child("initContainers").Index(i), &spec.InitContainers[i]) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(path.Child("containers").Index(i), &spec.Containers[i]) {
				return
			}
		}
	}
}
