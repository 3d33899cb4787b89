package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// identify gives a defaulted pod the identity of a static pod of this node: the
// UID, name suffix, namespace, node name, annotations, toleration and phase
// that the kubelet sets.
//
// It departs from the kubelet in what the UID and the hash cover: not the path
// or URL, so that a renamed file keeps its pod; and the UID does not cover the
// cpu and memory values, so that a resize is an update of the same pod.
func (l *Loader) identify(pod *v1.Pod, source Source) {
	whole := identityForm(pod)
	shape := withoutResources(whole)
	qos := podinfo.QOSClass(pod)
	if pod.UID == "" {
		pod.UID = types.UID(identityHash(map[string]any{
			"object": shape, "qosClass": qos, "source": source, "node": l.node,
		}))
	}
	hash := identityHash(map[string]any{"object": whole})
	template := identityHash(map[string]any{
		"namespace": fullName(pod), "spec": withoutImages(shape), "qosClass": qos,
	})

	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: kindPod}
	pod.Name += nodeSuffix(l.node)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	clearServerFields(pod)
	pod.Spec.NodeName = l.node
	clearOwnAnnotations(pod)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[podinfo.AnnotationSource] = string(source)
	pod.Annotations[podinfo.AnnotationHash] = hash
	pod.Annotations[podinfo.AnnotationTemplate] = template
	if source == SourceFile {
		tolerateNoExecute(&pod.Spec)
	}
	pod.Status = v1.PodStatus{Phase: v1.PodPending}
}

// tolerateNoExecute keeps taints from evicting a pod from a file, as the
// kubelet does. Pods from a URL do not get the toleration in the kubelet
// either, and neither do those of an artifact.
func tolerateNoExecute(spec *v1.PodSpec) {
	toleration := v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}
	for i := range spec.Tolerations {
		if spec.Tolerations[i] == toleration {
			return
		}
	}
	spec.Tolerations = append(spec.Tolerations, toleration)
}

// clearServerFields removes what an API server writes, since a manifest may
// have been exported from one.
func clearServerFields(pod *v1.Pod) {
	pod.CreationTimestamp = metav1.Time{}
	pod.ResourceVersion = ""
	pod.Generation = 0
	pod.SelfLink = "" //nolint:staticcheck // deprecated, but objects of old clusters still carry it
	pod.ManagedFields = nil
}

// clearOwnAnnotations removes the annotations that this package and the kubelet
// write.
func clearOwnAnnotations(pod *v1.Pod) {
	for _, name := range []string{podinfo.AnnotationSource, podinfo.AnnotationHash, podinfo.AnnotationSeen,
		podinfo.AnnotationMirror, podinfo.AnnotationTemplate, podinfo.AnnotationImages} {
		delete(pod.Annotations, name)
	}
}

// identityHash returns 32 hex digits, the length of the kubelet's UIDs, over
// canonical JSON, in which the keys of every object are sorted.
func identityHash(form map[string]any) string {
	text, err := json.Marshal(form)
	if err != nil {
		// The form consists of decoded JSON and strings.
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// BaseName returns the name of a static pod in its manifest: the pod name
// without the suffix "-<node>". The name of any other pod is returned
// unchanged.
func BaseName(pod *v1.Pod) string {
	return baseName(pod, Source(pod.Annotations[podinfo.AnnotationSource]))
}

func baseName(pod *v1.Pod, source Source) string {
	switch source {
	case SourceFile, SourceHTTP, SourceOCI:
		return strings.TrimSuffix(pod.Name, nodeSuffix(pod.Spec.NodeName))
	}
	return pod.Name
}

// nodeSuffix returns the suffix of a static pod's name: the node name in lower
// case, as in the kubelet, since pod names must be lower case.
func nodeSuffix(node string) string {
	return "-" + strings.ToLower(node)
}
