package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/suggest"
)

// unsupportedValues finds values that are valid in the API but would silently
// have no effect on a node.
func unsupportedValues(pod *v1.Pod) field.ErrorList {
	errs := append(invalidValues(pod), untranslatedProfiles(pod)...)
	errs = append(errs, invalidAutoUpdate(pod)...)
	errs = append(errs, invalidReplace(pod)...)
	errs = append(errs, invalidAllowDevices(pod)...)
	errs = append(errs, invalidManifestRevision(pod)...)
	errs = append(errs, unknownNamespaceLabels(pod)...)
	errs = append(errs, invalidBandwidth(pod)...)
	return append(errs, missingToken(field.NewPath("spec"), &pod.Spec)...)
}

// invalidValues finds values that no API server would correct.
func invalidValues(pod *v1.Pod) field.ErrorList {
	var errs field.ErrorList
	if value, ok := pod.Annotations[podinfo.AnnotationRestartOnChange]; ok && value != "true" && value != "false" {
		errs = append(errs,
			field.NotSupported(field.NewPath("metadata", "annotations").Key(podinfo.AnnotationRestartOnChange), value,
				[]string{"true", "false"}))
	}
	check := func(path *field.Path, c *v1.Container) {
		if sc := c.SecurityContext; sc != nil && sc.Capabilities != nil {
			at := path.Child("securityContext", "capabilities")
			errs = append(errs, unknownCapabilities(at.Child("add"), sc.Capabilities.Add)...)
			errs = append(errs, unknownCapabilities(at.Child("drop"), sc.Capabilities.Drop)...)
		}
	}
	spec := field.NewPath("spec")
	for path, c := range containerPaths(spec, &pod.Spec) {
		check(path, c)
	}
	for i := range pod.Spec.EphemeralContainers {
		check(spec.Child("ephemeralContainers").Index(i),
			(*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return errs
}

// invalidBandwidth finds limits of bandwidth for which the runtime would create no sandbox.
func invalidBandwidth(pod *v1.Pod) field.ErrorList {
	var errs field.ErrorList
	for _, name := range podinfo.BandwidthAnnotations(pod) {
		if err := podinfo.CheckBandwidth(pod.Annotations[name]); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations").Key(name), pod.Annotations[name],
				err.Error()))
		}
	}
	return errs
}

// unknownNamespaceLabels finds required pod affinities that select namespaces by labels which
// nothing on a node defines.
func unknownNamespaceLabels(pod *v1.Pod) field.ErrorList {
	affinity := pod.Spec.Affinity
	if affinity == nil {
		return nil
	}
	var errs field.ErrorList
	check := func(path *field.Path, terms []v1.PodAffinityTerm) {
		for i := range terms {
			selector := terms[i].NamespaceSelector
			if selector == nil {
				continue
			}
			keys := slices.Collect(maps.Keys(selector.MatchLabels))
			for _, expression := range selector.MatchExpressions {
				keys = append(keys, expression.Key)
			}
			slices.Sort(keys)
			for _, key := range slices.Compact(keys) {
				if key != v1.LabelMetadataName {
					errs = append(errs, field.Forbidden(path.Index(i).Child("namespaceSelector"),
						fmt.Sprintf("selects by the label %s, and on a node namespaces have only the label %s; use that, or list them "+
							"in namespaces", key, v1.LabelMetadataName)))
				}
			}
		}
	}
	const required = "requiredDuringSchedulingIgnoredDuringExecution"
	path := field.NewPath("spec", "affinity")
	if a := affinity.PodAffinity; a != nil {
		check(path.Child("podAffinity", required), a.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a := affinity.PodAntiAffinity; a != nil {
		check(path.Child("podAntiAffinity", required), a.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return errs
}

// missingToken finds a pod that would get a service account token, which it may
// rely on, and gets none here. Every pod exported from an API server names the
// account "default", so that this name has no significance.
func missingToken(path *field.Path, spec *v1.PodSpec) field.ErrorList {
	name := spec.ServiceAccountName
	if name == "" {
		name = spec.DeprecatedServiceAccount
	}
	if name == "" || name == "default" || spec.AutomountServiceAccountToken != nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("serviceAccountName"),
		"would mount a service account token, and there is no API server to issue one; also set "+
			"automountServiceAccountToken: false if the pod does not need the token, or remove the field")}
}

// capabilities are those of capabilities(7) as of Linux 6.18, without the
// prefix.
var capabilities = []string{
	"AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE", "CHOWN",
	"DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL", "LEASE",
	"LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_BROADCAST",
	"NET_RAW", "PERFMON", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT", "SYS_CHROOT",
	"SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG",
	"WAKE_ALARM",
}

// unknownCapabilities finds misspelled capabilities: runc only logs a warning
// and starts the container without them.
func unknownCapabilities(path *field.Path, list []v1.Capability) field.ErrorList {
	var errs field.ErrorList
	for i, c := range list {
		name := strings.TrimPrefix(strings.ToUpper(string(c)), "CAP_")
		if name == "ALL" || slices.Contains(capabilities, name) {
			continue
		}
		detail := "is not a Linux capability; must be a capability such as NET_BIND_SERVICE, or ALL"
		if near := suggest.Nearest(name, capabilities); near != "" {
			detail = fmt.Sprintf("is not a Linux capability; did you mean %s?", near)
		}
		errs = append(errs, field.Forbidden(path.Index(i), fmt.Sprintf("%q %s", c, detail)))
	}
	return errs
}
