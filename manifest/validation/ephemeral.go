package validation

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// SetEphemeralDefaults sets the fields of ephemeral containers that have an API default and are
// not set.
func SetEphemeralDefaults(list []v1.EphemeralContainer) {
	for i := range list {
		defaultContainer((*v1.Container)(&list[i].EphemeralContainerCommon), false)
	}
}

// CheckEphemeral returns everything that is wrong with the ephemeral containers that a pod is to
// have: as the API server (v1.36) validates an update of pods/ephemeralcontainers, and what this
// version does not support. The pod has its present ones, and both are defaulted.
func CheckEphemeral(pod *v1.Pod, desired []v1.EphemeralContainer) []FieldFault {
	errs := validateEphemeral(pod, desired)
	list := field.NewPath("spec", "ephemeralContainers")
	changed := *pod
	changed.Spec.EphemeralContainers = desired
	outer := newPathSet(errs)
	for _, err := range UnsupportedBound(&changed) {
		if strings.HasPrefix(err.Field, list.String()+"[") && !outer.contains(err.Field) {
			errs = append(errs, err)
		}
	}
	faults := make([]FieldFault, 0, len(errs))
	for _, err := range errs {
		faults = append(faults, faultOf(err))
	}
	return faults
}

func validateEphemeral(pod *v1.Pod, desired []v1.EphemeralContainer) field.ErrorList {
	v := &validator{meta: &pod.ObjectMeta, spec: &pod.Spec, volumes: map[string]*v1.VolumeSource{},
		hostUsers: pod.Spec.HostUsers == nil || *pod.Spec.HostUsers}
	for i := range pod.Spec.Volumes {
		v.volumes[pod.Spec.Volumes[i].Name] = &pod.Spec.Volumes[i].VolumeSource
	}
	for i := range pod.Spec.ResourceClaims {
		v.claims = append(v.claims, pod.Spec.ResourceClaims[i].Name)
	}
	list := field.NewPath("spec", "ephemeralContainers")
	names, targets := map[string]bool{}, map[string]bool{}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		names[c.Name], targets[c.Name] = true, true
	}
	present := map[string]*v1.EphemeralContainer{}
	for i := range pod.Spec.EphemeralContainers {
		present[pod.Spec.EphemeralContainers[i].Name] = &pod.Spec.EphemeralContainers[i]
	}
	for i := range desired {
		c, path := &desired[i], list.Index(i)
		if names[c.Name] {
			v.duplicate(path.Child("name"), c.Name,
				"the containers of a pod need unique names, including those that were added before")
		}
		if c.Name != "" {
			names[c.Name] = true
		}
		if before := present[c.Name]; before != nil {
			if !equality.Semantic.DeepEqual(before, c) {
				v.forbidden(path, fmt.Sprintf("ephemeral container %s cannot be changed; add another one", c.Name))
			}
			delete(present, c.Name)
			continue
		}
		v.ephemeralContainer(path, c)
		if target := c.TargetContainerName; target != "" && !targets[target] {
			v.notFound(path.Child("targetContainerName"), target, "must be the name of a container of the pod")
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if name := pod.Spec.EphemeralContainers[i].Name; present[name] != nil {
			v.forbidden(list, fmt.Sprintf("ephemeral container %s cannot be removed from a pod; restart the pod to remove "+
				"them all", name))
		}
	}
	return v.errs
}

func isPrivileged(c *v1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
}

// hasPrivileged reports whether a container of the pod's spec is privileged. Then its sandbox is.
func (v *validator) hasPrivileged() bool {
	for c := range podinfo.EachContainer(v.spec, podinfo.SpecContainers) {
		if isPrivileged(c) {
			return true
		}
	}
	return false
}

// ephemeralContainer validates an ephemeral container that is added.
func (v *validator) ephemeralContainer(path *field.Path, c *v1.EphemeralContainer) {
	common := (*v1.Container)(&c.EphemeralContainerCommon)
	v.container(path, common)
	const detail = "an ephemeral container cannot have it; remove the field"
	for name, set := range sortedMap(map[string]bool{
		"ports": len(c.Ports) > 0, "livenessProbe": c.LivenessProbe != nil, "readinessProbe": c.ReadinessProbe != nil,
		"startupProbe": c.StartupProbe != nil, "lifecycle": c.Lifecycle != nil, "resizePolicy": len(c.ResizePolicy) > 0,
		"restartPolicy": c.RestartPolicy != nil, "restartPolicyRules": len(c.RestartPolicyRules) > 0,
		"resources": len(c.Resources.Limits)+len(c.Resources.Requests)+len(c.Resources.Claims) > 0,
	}) {
		if set {
			v.forbidden(path.Child(name), detail)
		}
	}
	if isPrivileged(common) && !v.hasPrivileged() {
		v.forbidden(path.Child("securityContext", "privileged"),
			"the sandbox of the pod was created without privileges, so that the runtime refuses a privileged container; add "+
				"capabilities, as podstead debug --profile sysadmin does")
	}
	for i, mount := range c.VolumeMounts {
		at := path.Child("volumeMounts").Index(i)
		if mount.SubPath != "" {
			v.forbidden(at.Child("subPath"), detail)
		}
		if mount.SubPathExpr != "" {
			v.forbidden(at.Child("subPathExpr"), detail)
		}
	}
	// A message names the field that cannot be set once, and not again what is wrong in it.
	outer := pathSet{paths: map[string]bool{}, lengths: map[int]bool{}}
	for _, err := range v.errs {
		if err.Type == field.ErrorTypeForbidden && err.Detail == detail {
			outer.paths[err.Field], outer.lengths[len(err.Field)] = true, true
		}
	}
	v.errs = slices.DeleteFunc(v.errs,
		func(err *field.Error) bool { return err.Detail != detail && outer.contains(err.Field) })
}
