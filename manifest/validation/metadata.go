package validation

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Annotations with settings that predate their fields. The API server still
// validates them.
const (
	annotationDeletionCost  = "controller.kubernetes.io/pod-deletion-cost"
	annotationTolerations   = "scheduler.alpha.kubernetes.io/tolerations"
	annotationSeccomp       = "seccomp.security.alpha.kubernetes.io/pod"
	annotationSeccompPrefix = "container.seccomp.security.alpha.kubernetes.io/"
	// Annotations for the runtime and its CNI plugins.
	annotationCDIPrefix      = "cdi.k8s.io/"
	annotationAppArmorPrefix = v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
	seccompDockerDefault     = "docker/default"
	seccompRuntimeDefault    = "runtime/default"
	seccompUnconfined        = "unconfined"
	localhostProfilePrefix   = "localhost/"
	appArmorRuntimeDefault   = v1.DeprecatedAppArmorBetaProfileRuntimeDefault
	appArmorUnconfined       = v1.DeprecatedAppArmorBetaProfileNameUnconfined
	finalizerNames           = "must be a qualified name with a domain, such as example.com/name, or one of kubernetes, " +
		"orphan, foregroundDeletion"
)

// safeUID is stricter than the API, which does not validate a UID: here
// directories that root writes to are named after it.
var safeUID = regexp.MustCompile(`^[A-Za-z0-9-]{1,63}$`)

func (v *validator) metadata(path *field.Path) {
	meta := *v.meta
	if meta.Namespace == "" {
		meta.Namespace = metav1.NamespaceDefault
	}
	// The API server does not report the key of an invalid label or annotation.
	meta.Labels, meta.Annotations = nil, nil
	v.addInOrder(validation.ValidateObjectMeta(&meta, true, validation.NameIsDNSSubdomain, path))
	v.labels(path.Child("labels"), v.meta.Labels)
	v.annotationKeys(path.Child("annotations"), v.meta.Annotations)
	for _, err := range v.errs {
		if err.Type == field.ErrorTypeRequired && err.Field == path.Child("name").String() {
			// There is no name generation for a static pod.
			err.Detail = "a pod needs a name, such as web"
		}
	}
	if uid := string(meta.UID); uid != "" && !safeUID.MatchString(uid) {
		v.invalid(path.Child("uid"), uid,
			"must be 1 to 63 letters, digits and dashes, since directories are named after it; it is best left out")
	}
	for i, name := range meta.Finalizers {
		if !strings.Contains(name, "/") && name != string(v1.FinalizerKubernetes) &&
			name != metav1.FinalizerOrphanDependents && name != metav1.FinalizerDeleteDependents {
			v.invalid(path.Child("finalizers").Index(i), name, finalizerNames)
		}
	}
	v.annotations(path.Child("annotations"))
}

// labels validates labels and label values.
func (v *validator) labels(path *field.Path, labels map[string]string) {
	for key, value := range sortedMap(labels) {
		v.qualifiedName(path.Key(key), key)
		v.rules(path.Key(key), value, utilvalidation.IsValidLabelValue(value))
	}
}

func (v *validator) annotationKeys(path *field.Path, annotations map[string]string) {
	for key := range sortedMap(annotations) {
		// The API server ignores case here for compatibility.
		v.rules(path.Key(key), key, utilvalidation.IsQualifiedName(strings.ToLower(key)))
	}
	if validation.ValidateAnnotationsSize(annotations) != nil {
		v.add(field.TooLong(path, "", validation.TotalAnnotationSizeLimitB))
	}
}

func (v *validator) annotations(path *field.Path) {
	for key, value := range sortedMap(v.meta.Annotations) {
		at := path.Key(key)
		switch {
		case key == annotationTolerations:
			v.annotatedTolerations(at, value)
		case key == annotationDeletionCost:
			if !isDeletionCost(value) {
				v.invalid(at, value, "must be a 32-bit integer without a plus sign or leading zeros")
			}
		case key == annotationSeccomp, strings.HasPrefix(key, annotationSeccompPrefix):
			v.annotatedSeccomp(at, value)
		case key == podinfo.AnnotationMaxRestartPeriod:
			if _, err := podinfo.MaxRestartPeriod(&v1.Pod{ObjectMeta: *v.meta}); err != nil {
				v.invalid(at, value, err.Error())
			}
		case key == podinfo.AnnotationDependsOn:
			v.dependsOn(at, value)
		case key == podinfo.AnnotationRollbackAfter:
			if _, _, err := podinfo.RollbackAfter(&v1.Pod{ObjectMeta: *v.meta}); err != nil {
				v.invalid(at, value, err.Error())
			}
		case strings.HasPrefix(key, annotationAppArmorPrefix):
			v.annotatedAppArmor(at, strings.TrimPrefix(key, annotationAppArmorPrefix), value)
		}
	}
}

// dependsOn validates the list of the pods that this one depends on.
func (v *validator) dependsOn(path *field.Path, value string) {
	names, err := podinfo.DependsOn(&v1.Pod{ObjectMeta: *v.meta})
	if err != nil {
		v.invalid(path, value, err.Error())
		return
	}
	own := v.meta.Namespace
	if own == "" {
		own = metav1.NamespaceDefault
	}
	if slices.Contains(names, own+"/"+v.meta.Name) {
		v.invalid(path, value, "names the pod itself, which would never start; remove the name")
	}
}

func (v *validator) annotatedTolerations(path *field.Path, value string) {
	if value == "" {
		return
	}
	var tolerations []v1.Toleration
	if err := json.Unmarshal([]byte(value), &tolerations); err != nil {
		v.invalid(path, value, "must be a JSON list of tolerations: "+err.Error())
		return
	}
	v.tolerations(path, tolerations)
}

func isDeletionCost(value string) bool {
	cost, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return false
	}
	// Like the API server, accept "-0" and "-08", and reject "+1" and "08".
	return cost < 0 || value[0] == '-' || value == strconv.FormatInt(cost, 10)
}

func (v *validator) annotatedSeccomp(path *field.Path, value string) {
	switch {
	case value == seccompRuntimeDefault, value == seccompDockerDefault, value == seccompUnconfined:
	case strings.HasPrefix(value, localhostProfilePrefix):
		v.localPath(path, strings.TrimPrefix(value, localhostProfilePrefix))
	default:
		v.invalid(path, value, "must be runtime/default, unconfined or localhost/ followed by the file of the profile; use "+
			"securityContext.seccompProfile instead")
	}
}

func (v *validator) annotatedAppArmor(path *field.Path, container, value string) {
	if podinfo.FindContainer(v.spec, container) == nil {
		v.invalid(path, container, "must end in the name of a container of this pod")
	}
	if value != "" && value != appArmorRuntimeDefault && value != appArmorUnconfined &&
		!strings.HasPrefix(value, localhostProfilePrefix) {
		v.invalid(path, value, "must be runtime/default, unconfined or localhost/ followed by the name of the profile; use "+
			"securityContext.appArmorProfile instead")
	}
}

// annotatedProfiles compares the fields of security contexts with the
// equivalent annotations: they must not contradict each other.
func (v *validator) annotatedProfiles(spec *field.Path) {
	pod := v.spec.SecurityContext
	if pod != nil && pod.SeccompProfile != nil {
		if value, ok := v.meta.Annotations[annotationSeccomp]; ok {
			v.seccompMatches(spec.Child("securityContext", "seccompProfile"), pod.SeccompProfile, value)
		}
	}
	v.eachContainer(spec, func(path *field.Path, c *v1.Container) {
		path = path.Child("securityContext")
		if sc := c.SecurityContext; sc != nil && sc.SeccompProfile != nil {
			if value, ok := v.meta.Annotations[annotationSeccompPrefix+c.Name]; ok {
				v.seccompMatches(path.Child("seccompProfile"), sc.SeccompProfile, value)
			}
		}
		var profile *v1.AppArmorProfile
		if pod != nil {
			profile = pod.AppArmorProfile
		}
		if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			profile = c.SecurityContext.AppArmorProfile
		}
		windows := v.spec.OS != nil && v.spec.OS.Name == v1.Windows
		if value, ok := v.meta.Annotations[annotationAppArmorPrefix+c.Name]; ok && profile != nil && !windows {
			v.appArmorMatches(path.Child("appArmorProfile"), profile, value)
		}
	})
}

func (v *validator) seccompMatches(path *field.Path, profile *v1.SeccompProfile, annotation string) {
	const detail = "must be equal to the seccomp annotation; remove the annotation"
	switch profile.Type {
	case v1.SeccompProfileTypeUnconfined:
		if annotation != seccompUnconfined {
			v.forbidden(path.Child("type"), detail)
		}
	case v1.SeccompProfileTypeRuntimeDefault:
		if annotation != seccompRuntimeDefault && annotation != seccompDockerDefault {
			v.forbidden(path.Child("type"), detail)
		}
	case v1.SeccompProfileTypeLocalhost:
		v.localhostMatches(path, profile.LocalhostProfile, annotation, detail)
	}
}

func (v *validator) appArmorMatches(path *field.Path, profile *v1.AppArmorProfile, annotation string) {
	const detail = "must be equal to the AppArmor annotation; remove the annotation"
	switch profile.Type {
	case v1.AppArmorProfileTypeUnconfined:
		if annotation != appArmorUnconfined {
			v.forbidden(path.Child("type"), detail)
		}
	case v1.AppArmorProfileTypeRuntimeDefault:
		if annotation != appArmorRuntimeDefault {
			v.forbidden(path.Child("type"), detail)
		}
	case v1.AppArmorProfileTypeLocalhost:
		v.localhostMatches(path, profile.LocalhostProfile, annotation, detail)
	}
}

func (v *validator) localhostMatches(path *field.Path, profile *string, annotation, detail string) {
	name, ok := strings.CutPrefix(annotation, localhostProfilePrefix)
	if !ok {
		v.forbidden(path.Child("type"), detail)
	} else if profile == nil || *profile != name {
		v.forbidden(path.Child("localhostProfile"), detail)
	}
}
