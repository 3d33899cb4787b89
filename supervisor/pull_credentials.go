package supervisor

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// PullCredentials returns the credentials for an image that is pulled for no pod:
// those of Secrets that the manifests declare, then those of the node.
func (s *Supervisor) PullCredentials(namespace string, secrets []string) cri.PullCredentials {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Annotations: map[string]string{podinfo.AnnotationSource: string(podinfo.SourceFile)}}}
	for _, name := range secrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: name})
	}
	return s.podSyncer.inputs.PullCredentials(pod)
}
