package oracle

import (
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/capabilities"
)

// nodeName is the node of the kubelet.
const nodeName = "node"

// upstreamPod converts a decoded manifest as the kubelet does: defaulted and in the
// internal version.
func upstreamPod(t *testing.T, pod *v1.Pod) *core.Pod {
	t.Helper()
	pod = pod.DeepCopy()
	legacyscheme.Scheme.Default(pod)
	internal := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(pod, internal, nil); err != nil {
		t.Fatalf("cannot convert %s: %v", pod.Name, err)
	}
	return internal
}

// upstreamDefaults returns the defaulted pod in the external version.
func upstreamDefaults(t *testing.T, pod *v1.Pod) *v1.Pod {
	t.Helper()
	defaulted := &v1.Pod{}
	if err := legacyscheme.Scheme.Convert(upstreamPod(t, pod), defaulted, nil); err != nil {
		t.Fatalf("cannot convert %s back: %v", pod.Name, err)
	}
	defaulted.TypeMeta = pod.TypeMeta
	return defaulted
}

// upstreamFaults validates a decoded manifest as the kubelet does: it gives the
// pod its namespace and node first, and allows privileged containers. The
// node's suffix on the name is left out, since podstead validates the name as the
// manifest has it.
func upstreamFaults(t *testing.T, pod *v1.Pod) field.ErrorList {
	t.Helper()
	capabilities.Setup(true, 0)
	internal := upstreamPod(t, pod)
	if internal.Namespace == "" {
		internal.Namespace = metav1.NamespaceDefault
	}
	internal.Spec.NodeName = nodeName
	options := podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil)
	return validation.ValidatePodCreate(internal, options)
}

func toJSON(t *testing.T, object any) string {
	t.Helper()
	data, err := json.MarshalIndent(object, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
