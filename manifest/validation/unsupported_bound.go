package validation

import (
	"maps"
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// UnsupportedBound is Unsupported for a pod that a cluster has bound to this
// node, as its API server returns it: validated, defaulted, placed and named.
// Fields that the cluster has already handled are not checked again.
func UnsupportedBound(pod *v1.Pod) field.ErrorList {
	return append(boundVerdicts.check(nil, reflect.ValueOf(pod).Elem()), invalidValues(pod)...)
}

// Reasons and errors for fields of API pods.
const (
	schedulerDone ignored     = "for the scheduler, which has placed the pod"
	apiServerDone ignored     = "for the API server, which has already handled it"
	otherSystem   ignored     = "for Windows; a node that runs Linux ignores it"
	noDriver      unsupported = "needs a storage driver, and this node has none; schedule the pod to another node"
)

// boundVerdicts are podVerdicts with the differences for API pods.
var boundVerdicts = podVerdicts.override(structVerdict{
	"metadata": metadataVerdicts.override(structVerdict{
		"deletionTimestamp":          supported("TestClusterPods"),
		"deletionGracePeriodSeconds": supported("TestClusterPods"),
		"annotations":                boundAnnotations(),
	}),
	"spec": specVerdicts.override(structVerdict{
		"containers":     listVerdict{boundContainerVerdicts},
		"initContainers": listVerdict{boundContainerVerdicts},
		"ephemeralContainers": listVerdict{
			boundContainerVerdicts.override(structVerdict{"targetContainerName": supported("TestClusterPods")})},
		"securityContext":              podSecurityVerdicts.override(structVerdict{"windowsOptions": otherSystem}),
		"os":                           structVerdict{"name": supported("TestClusterNode")}, // admission rejects others
		"automountServiceAccountToken": apiServerDone,
		"resourceClaims":               supported("TestResourceClaims"),
		"schedulingGates":              schedulerDone,
		"schedulingGroup":              schedulerDone,
		"affinity": affinityVerdicts.override(structVerdict{
			"podAffinity":     boundPodAffinity,
			"podAntiAffinity": boundPodAffinity,
		}),
		"topologySpreadConstraints": listVerdict{spreadVerdicts.override(structVerdict{"whenUnsatisfiable": schedulerDone})},
		"volumes": listVerdict{withoutDriver(volumeVerdicts).override(structVerdict{
			"persistentVolumeClaim": supported("TestClusterClaims"),
			"ephemeral":             supported("TestClusterClaims"),
			"csi":                   supported("TestClusterCSI"),
			"projected": projectedVerdicts.override(structVerdict{
				"sources": listVerdict{projectedSourceVerdicts.override(
					structVerdict{"serviceAccountToken": supported("TestClusterObjects")})},
			}),
		})},
	}),
})

var boundContainerVerdicts = containerVerdicts.override(structVerdict{
	"resources":       boundResourceVerdicts,
	"readinessProbe":  probeVerdicts.override(structVerdict{"terminationGracePeriodSeconds": apiServerDone}),
	"securityContext": containerSecurityVerdicts.override(structVerdict{"windowsOptions": otherSystem}),
})

var boundResourceVerdicts = resourceVerdict{
	resourceVerdicts.structVerdict.override(structVerdict{"claims": supported("TestResourceClaims")})}

var boundPodAffinity = podAffinityVerdicts.override(
	structVerdict{"requiredDuringSchedulingIgnoredDuringExecution": schedulerDone})

// boundAnnotations ignores deprecated annotations: an API server keeps them,
// and no kubelet reads them.
func boundAnnotations() mapVerdict {
	on := maps.Clone(annotationVerdicts)
	for _, key := range []string{annotationSeccomp, annotationSeccompPrefix + "*", annotationAppArmorPrefix + "*"} {
		on[key] = apiServerDone
	}
	on[annotationCDIPrefix+"*"] = ignored("a kubelet does not give the annotations of a pod to its containers either")
	on[podinfo.AnnotationDependsOn] = ignored(
		"the order of start is that of static pods; the event DependencyIgnored says so")
	on[podinfo.AnnotationAllowDevices] = ignored(
		"what the cluster permits to its pods does not include it; use a device plugin or localDevices")
	on[podinfo.AnnotationReplace] = ignored("a pod of an API server is never edited on the node, but replaced there")
	on[podinfo.AnnotationRollbackAfter] = ignored("a pod of an API server is rolled back there")
	on[podinfo.AnnotationAutoUpdate] = ignored("the images of a pod of an API server are updated there")
	return on
}

// withoutDriver returns the verdicts with those on volumes of a cluster's drivers replaced: the pod is
// in a cluster, and the node lacks the driver.
func withoutDriver(volumes structVerdict) structVerdict {
	all := maps.Clone(volumes)
	for name := range driverTypes() {
		all[name] = noDriver
	}
	return all
}

// override returns the verdicts with some of them replaced.
func (fs structVerdict) override(others structVerdict) structVerdict {
	all := maps.Clone(fs)
	maps.Copy(all, others)
	return all
}
