package cluster

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// mirrorOf returns the mirror pod of a static pod: named, owned and marked by the
// kubelet's rules, and without what admission rejects in a mirror because it
// exists on this node and not in the cluster. An annotation names what is left
// out.
func mirrorOf(static *v1.Pod, node *v1.Node) *v1.Pod {
	controller := true
	m := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: static.Name, Namespace: static.Namespace,
			Labels: maps.Clone(static.Labels), Annotations: maps.Clone(static.Annotations),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: &controller,
			}},
		},
		Spec: *static.Spec.DeepCopy(),
	}
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[podinfo.AnnotationMirror] = static.Annotations[podinfo.AnnotationHash]
	if left := leaveOut(&m.Spec); len(left) > 0 {
		m.Annotations[annotationLeftOut] = strings.Join(left, ", ")
	}
	return m
}

// leaveOut removes references to objects on this node from a spec, and returns
// their paths, sorted.
func leaveOut(spec *v1.PodSpec) []string {
	left := map[string]bool{}
	// The cluster resolves a class to a priority of its own, and rejects a priority
	// that it did not resolve.
	if spec.Priority != nil {
		spec.Priority = nil
		if spec.PriorityClassName == "" {
			left["spec.priority"] = true
		}
	}
	if spec.PriorityClassName != "" && !strings.HasPrefix(spec.PriorityClassName, "system-") {
		spec.PriorityClassName = ""
		left["spec.priorityClassName"] = true
	}
	spec.PreemptionPolicy = nil
	if spec.RuntimeClassName != nil {
		spec.RuntimeClassName, spec.Overhead = nil, nil
		left["spec.runtimeClassName"] = true
	}
	if spec.ServiceAccountName != "" {
		spec.ServiceAccountName, spec.DeprecatedServiceAccount = "", ""
		left["spec.serviceAccountName"] = true
	}
	if len(spec.ImagePullSecrets) > 0 {
		spec.ImagePullSecrets = nil
		left["spec.imagePullSecrets"] = true
	}
	gone := leaveOutVolumes(spec, left)
	each := func(field string, containers []v1.Container) {
		for i := range containers {
			c, path := &containers[i], "spec."+field+"["+containers[i].Name+"]"
			if len(c.EnvFrom) > 0 {
				c.EnvFrom = nil
				left[path+".envFrom"] = true
			}
			c.Env = slices.DeleteFunc(c.Env, func(e v1.EnvVar) bool {
				local := e.ValueFrom != nil && (e.ValueFrom.ConfigMapKeyRef != nil || e.ValueFrom.SecretKeyRef != nil)
				if local {
					left[path+".env["+e.Name+"]"] = true
				}
				return local
			})
			c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return gone[m.Name] })
			c.VolumeDevices = slices.DeleteFunc(c.VolumeDevices, func(d v1.VolumeDevice) bool { return gone[d.Name] })
		}
	}
	each("initContainers", spec.InitContainers)
	each("containers", spec.Containers)
	// They belong to a run of the pod. A cluster takes none in a new pod, and never in a mirror pod.
	spec.EphemeralContainers = nil
	return slices.Sorted(maps.Keys(left))
}

// leaveOutVolumes removes the volumes made of local objects, and returns their
// names.
func leaveOutVolumes(spec *v1.PodSpec, left map[string]bool) map[string]bool {
	gone := map[string]bool{}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v v1.Volume) bool {
		local := v.ConfigMap != nil || v.Secret != nil || v.PersistentVolumeClaim != nil
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				local = local || s.DownwardAPI == nil
			}
		}
		if local {
			gone[v.Name] = true
			left["spec.volumes["+v.Name+"]"] = true
		}
		return local
	})
	return gone
}
