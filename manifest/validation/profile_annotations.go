package validation

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// TranslateAnnotations copies the deprecated annotations of seccomp and AppArmor
// profiles of a pod to the fields that replaced them, as API servers did (seccomp until
// Kubernetes 1.26, AppArmor since 1.30). A field that is set is not changed; one
// that contradicts its annotation is an error of CheckPod. Warnings reports the
// annotations.
func TranslateAnnotations(pod *v1.Pod) {
	sc := pod.Spec.SecurityContext
	if profile := annotatedSeccompProfile(pod.Annotations[annotationSeccomp]); profile != nil &&
		(sc == nil || sc.SeccompProfile == nil) {
		if sc == nil {
			sc = &v1.PodSecurityContext{}
			pod.Spec.SecurityContext = sc
		}
		sc.SeccompProfile = profile
	}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		seccomp := annotatedSeccompProfile(pod.Annotations[annotationSeccompPrefix+c.Name])
		appArmor := annotatedAppArmorProfile(pod.Annotations[annotationAppArmorPrefix+c.Name])
		if seccomp == nil && appArmor == nil {
			continue
		}
		if c.SecurityContext == nil {
			c.SecurityContext = &v1.SecurityContext{}
		}
		if c.SecurityContext.SeccompProfile == nil {
			c.SecurityContext.SeccompProfile = seccomp
		}
		if c.SecurityContext.AppArmorProfile == nil {
			c.SecurityContext.AppArmorProfile = appArmor
		}
	}
}

// annotatedSeccompProfile returns the field for an annotation, nil if it is absent or
// not valid.
func annotatedSeccompProfile(value string) *v1.SeccompProfile {
	switch value {
	case seccompRuntimeDefault, seccompDockerDefault:
		return &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}
	case seccompUnconfined:
		return &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined}
	}
	if name, ok := strings.CutPrefix(value, localhostProfilePrefix); ok && name != "" {
		return &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return nil
}

// annotatedAppArmorProfile is annotatedSeccompProfile for AppArmor.
func annotatedAppArmorProfile(value string) *v1.AppArmorProfile {
	switch value {
	case appArmorRuntimeDefault:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}
	case appArmorUnconfined:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}
	}
	if name, ok := strings.CutPrefix(value, localhostProfilePrefix); ok && name != "" {
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return nil
}

// untranslatedProfiles finds annotations that the API accepts and that name no profile.
func untranslatedProfiles(pod *v1.Pod) field.ErrorList {
	var errs field.ErrorList
	for key, value := range sortedMap(pod.Annotations) {
		seccomp := key == annotationSeccomp || strings.HasPrefix(key, annotationSeccompPrefix)
		appArmor := strings.HasPrefix(key, annotationAppArmorPrefix)
		if value == localhostProfilePrefix && (seccomp || appArmor) {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations").Key(key),
				"names no profile after localhost/; add its name, or set the field in securityContext instead"))
		}
	}
	return errs
}

// checkAnnotations finds annotations that are deprecated, or that have no effect.
func (d *warningCollector) checkAnnotations(annotations map[string]string) {
	for key, value := range sortedMap(annotations) {
		at := field.NewPath("metadata", "annotations").Key(key)
		d.checkOwnAnnotation(at, key)
		switch container, _ := strings.CutPrefix(key, annotationSeccompPrefix); {
		case key == annotationSeccomp:
			d.warn(at, "is deprecated; it sets spec.securityContext.seccompProfile", "set the field, and remove the annotation")
		case strings.HasPrefix(key, annotationSeccompPrefix) && podinfo.FindContainer(d.spec, container) == nil:
			d.warn(at, "has no effect: "+Quote(container)+" is not a container of this pod",
				"name one of its containers, or remove the annotation")
		case strings.HasPrefix(key, annotationSeccompPrefix):
			d.warn(at, "is deprecated; it sets securityContext.seccompProfile of the container",
				"set the field, and remove the annotation")
		case strings.HasPrefix(key, annotationAppArmorPrefix) && value == "":
			d.warn(at, "is empty and has no effect",
				"set securityContext.appArmorProfile of the container, or remove the annotation")
		case strings.HasPrefix(key, annotationAppArmorPrefix):
			d.warn(at, "is deprecated; it sets securityContext.appArmorProfile of the container",
				"set the field, and remove the annotation")
		case (key == podinfo.AnnotationIngressBandwidth || key == podinfo.AnnotationEgressBandwidth) && d.spec.HostNetwork:
			d.warn(at, "has no effect on a pod on the host's network", "remove the annotation")
		}
	}
}
