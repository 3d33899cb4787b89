package validation

import (
	"maps"
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// UnsupportedBound is Unsupported for a pod that a cluster has bound to this
// node, as its API server has it: validated, defaulted, placed, and named. What
// the cluster has done about a field is not asked for again.
func UnsupportedBound(pod *v1.Pod) field.ErrorList {
	return append(boundVerdicts.check(nil, reflect.ValueOf(pod).Elem()), invalidValues(pod)...)
}

// What is said of fields of a cluster's pods.
const (
	schedulerDone ignored     = "for the scheduler, which has placed the pod"
	apiServerDone ignored     = "for the API server, which has already handled it"
	noDriver      unsupported = "needs a storage driver, and this node has none; schedule the pod to another node"
)

// boundVerdicts are podVerdicts with what differs.
var boundVerdicts = podVerdicts.override(structVerdict{
	"metadata": metadataVerdicts.override(structVerdict{
		"deletionTimestamp":          supported("TestClusterPods"),
		"deletionGracePeriodSeconds": supported("TestClusterPods"),
		"annotations":                boundAnnotations(),
	}),
	"spec": specVerdicts.override(structVerdict{
		"ephemeralContainers":          listVerdict{containerVerdicts.override(structVerdict{"targetContainerName": supported("TestClusterPods")})},
		"automountServiceAccountToken": apiServerDone,
		"schedulingGates":              schedulerDone,
		"schedulingGroup":              schedulerDone,
		"affinity": affinityVerdicts.override(structVerdict{
			"podAffinity":     boundPodAffinity,
			"podAntiAffinity": boundPodAffinity,
		}),
		"topologySpreadConstraints": listVerdict{spreadVerdicts.override(structVerdict{"whenUnsatisfiable": schedulerDone})},
		"volumes": listVerdict{volumeVerdicts.override(structVerdict{
			"persistentVolumeClaim": noDriver,
			"ephemeral":             noDriver,
			"projected": projectedVerdicts.override(structVerdict{
				"sources": listVerdict{projectedSourceVerdicts.override(structVerdict{"serviceAccountToken": supported("TestClusterObjects")})},
			}),
		})},
	}),
})

var boundPodAffinity = podAffinityVerdicts.override(structVerdict{"requiredDuringSchedulingIgnoredDuringExecution": schedulerDone})

// boundAnnotations: an API server keeps the annotations of before there were
// fields, and no kubelet looks at them.
func boundAnnotations() mapVerdict {
	on := maps.Clone(annotationVerdicts)
	for _, key := range []string{annotationSeccomp, annotationSeccompPrefix + "*", annotationAppArmorPrefix + "*"} {
		on[key] = apiServerDone
	}
	return on
}

// with are the verdicts with others in place of some.
func (fs structVerdict) override(others structVerdict) structVerdict {
	all := maps.Clone(fs)
	maps.Copy(all, others)
	return all
}
