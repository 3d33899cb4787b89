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
	return append(boundVerdicts.judge(nil, reflect.ValueOf(pod).Elem()), badValues(pod)...)
}

// What is said of fields of a cluster's pods.
const (
	placed   inert   = "for the scheduler, which has placed the pod"
	admitted inert   = "for the API server, which has acted on it"
	noDriver refused = "needs a storage driver, and there are none on this node; bind the pod to another one"
)

// boundVerdicts are podVerdicts with what differs.
var boundVerdicts = podVerdicts.with(structVerdict{
	"metadata": metadataVerdicts.with(structVerdict{
		"deletionTimestamp":          honoured("TestClusterPods"),
		"deletionGracePeriodSeconds": honoured("TestClusterPods"),
		"annotations":                boundAnnotations(),
	}),
	"spec": specVerdicts.with(structVerdict{
		"ephemeralContainers":          listVerdict{containerVerdicts.with(structVerdict{"targetContainerName": honoured("TestClusterPods")})},
		"automountServiceAccountToken": admitted,
		"schedulingGates":              placed,
		"schedulingGroup":              placed,
		"affinity": affinityVerdicts.with(structVerdict{
			"podAffinity":     boundPodAffinity,
			"podAntiAffinity": boundPodAffinity,
		}),
		"topologySpreadConstraints": listVerdict{spreadVerdicts.with(structVerdict{"whenUnsatisfiable": placed})},
		"volumes": listVerdict{volumeVerdicts.with(structVerdict{
			"persistentVolumeClaim": noDriver,
			"ephemeral":             noDriver,
			"projected": projectedVerdicts.with(structVerdict{
				"sources": listVerdict{projectedSourceVerdicts.with(structVerdict{"serviceAccountToken": honoured("TestClusterObjects")})},
			}),
		})},
	}),
})

var boundPodAffinity = podAffinityVerdicts.with(structVerdict{"requiredDuringSchedulingIgnoredDuringExecution": placed})

// boundAnnotations: an API server keeps the annotations of before there were
// fields, and no kubelet looks at them.
func boundAnnotations() mapVerdict {
	on := maps.Clone(annotationVerdicts)
	for _, key := range []string{annotationSeccomp, annotationSeccompPrefix + "*", annotationAppArmorPrefix + "*"} {
		on[key] = admitted
	}
	return on
}

// with are the verdicts with others in place of some.
func (fs structVerdict) with(others structVerdict) structVerdict {
	all := maps.Clone(fs)
	maps.Copy(all, others)
	return all
}
