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

// identify gives a defaulted pod what makes it a static pod of this node: the
// UID, name suffix, namespace, node name, annotations, toleration and phase
// that the kubelet gives one.
//
// It departs from the kubelet in what the UID and the hash cover: not the path
// or URL, so that a renamed file keeps its pod; and the UID not the values of
// cpu and memory, so that a resize is an update of the same pod.
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

// tolerateNoExecute keeps taints from ending a pod that came from a file, as
// the kubelet does. Pods from a URL do not get the toleration there either.
func tolerateNoExecute(spec *v1.PodSpec) {
	toleration := v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}
	for i := range spec.Tolerations {
		if spec.Tolerations[i] == toleration {
			return
		}
	}
	spec.Tolerations = append(spec.Tolerations, toleration)
}

// clearServerFields takes out what an API server writes, as it is in a
// manifest that was read from one.
func clearServerFields(pod *v1.Pod) {
	pod.CreationTimestamp = metav1.Time{}
	pod.ResourceVersion = ""
	pod.Generation = 0
	//lint:ignore SA1019 objects of old clusters still carry it
	pod.SelfLink = ""
	pod.ManagedFields = nil
}

// clearOwnAnnotations takes out what this package and the kubelet write.
func clearOwnAnnotations(pod *v1.Pod) {
	for _, name := range []string{podinfo.AnnotationSource, podinfo.AnnotationHash, podinfo.AnnotationSeen, podinfo.AnnotationMirror, podinfo.AnnotationTemplate} {
		delete(pod.Annotations, name)
	}
}

// identityHash is 32 hex digits, the length of the UIDs that the kubelet
// makes, over canonical JSON: the keys of every object are sorted.
func identityHash(form map[string]any) string {
	text, err := json.Marshal(form)
	if err != nil {
		// The form consists of what JSON was decoded into, and strings.
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// BaseName is the name that a static pod has in its manifest: its own without
// the suffix "-<node>". Any other pod's name is returned as it is.
func BaseName(pod *v1.Pod) string {
	switch Source(pod.Annotations[podinfo.AnnotationSource]) {
	case SourceFile, SourceHTTP:
		return strings.TrimSuffix(pod.Name, nodeSuffix(pod.Spec.NodeName))
	}
	return pod.Name
}

// nodeSuffix is what a static pod's name ends in: as at the kubelet, the node
// name in lower case, since a pod's name must be.
func nodeSuffix(node string) string {
	return "-" + strings.ToLower(node)
}
