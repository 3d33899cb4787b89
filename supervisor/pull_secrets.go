package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/credential"
)

const reasonNoPullSecret = "FailedToRetrieveImagePullSecret"

// logins are what the pod's images are pulled with: its own pull secrets, then
// the credentials of the node.
func (s *podSyncer) logins(pod *v1.Pod) cri.PullCredentials {
	var revision strings.Builder
	objects := s.objectsFor(pod)
	for _, ref := range pod.Spec.ImagePullSecrets {
		if secret, ok := objects.Secret(pod.Namespace, ref.Name); ok {
			revision.WriteString(ref.Name + "=" + secret.ResourceVersion + "\n")
		}
	}
	return cri.PullCredentials{Revision: revision.String(), Lookup: func(ctx context.Context, image string) ([]cri.Credential, error) {
		parsed, err := credential.ParseImage(image)
		if err != nil {
			return nil, err
		}
		found, err := s.pullSecrets(pod, parsed)
		if s.cfg.Credentials == nil {
			return found, err
		}
		more, moreErr := s.cfg.Credentials.Lookup(ctx, parsed)
		return append(found, more...), errors.Join(err, moreErr)
	}}
}

// Logins are what an image for no pod is pulled with: Secrets of the manifests,
// then the credentials of the node.
func (s *Supervisor) Logins(namespace string, secrets []string) cri.PullCredentials {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Annotations: map[string]string{podinfo.AnnotationSource: string(manifest.SourceFile)}}}
	for _, name := range secrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: name})
	}
	return s.podSyncer.logins(pod)
}

// pullSecrets are the credentials for an image of the pod's own Secrets. As at
// the kubelet, one that is not there keeps nobody from trying; here it is told
// with the failure too.
func (s *podSyncer) pullSecrets(pod *v1.Pod, image credential.Image) ([]cri.Credential, error) {
	var found []cri.Credential
	var missing []string
	var errs []error
	for i, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" {
			continue
		}
		origin := "Secret " + pod.Namespace + "/" + ref.Name
		objects := s.objectsFor(pod)
		secret, ok := objects.Secret(pod.Namespace, ref.Name)
		if !ok {
			missing = append(missing, ref.Name)
			remedy := "put it beside the manifest"
			if podinfo.IsAPI(pod) {
				_, remedy = objects.Missing(manifest.ObjectRef{Kind: manifest.KindSecret, Namespace: pod.Namespace, Name: ref.Name})
			}
			errs = append(errs, fmt.Errorf("imagePullSecrets[%d]: there is no %s; %s", i, origin, remedy))
			continue
		}
		var keyring credential.Keyring
		var err error
		switch secret.Type {
		case v1.SecretTypeDockerConfigJson:
			keyring, err = credential.ParseDockerConfig(secret.Data[v1.DockerConfigJsonKey], origin)
		case v1.SecretTypeDockercfg:
			keyring, err = credential.ParseDockercfg(secret.Data[v1.DockerConfigKey], origin)
		default:
			err = fmt.Errorf("imagePullSecrets[%d]: %s is of type %q, and no login: want %s", i, origin, secret.Type, v1.SecretTypeDockerConfigJson)
		}
		errs = append(errs, err)
		found = append(found, keyring.Lookup(image)...)
	}
	if len(missing) > 0 && pod.Name != "" {
		s.cfg.Events.Event(pod, v1.EventTypeWarning, reasonNoPullSecret,
			fmt.Sprintf("Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(missing, ", ")))
	}
	return found, errors.Join(errs...)
}
