package podinputs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/pullrecords"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/credential"
)

// PullCredentials returns the credentials with which the pod's images are pulled:
// those of its own pull secrets, then those of the node.
func (r *Resolver) PullCredentials(pod *v1.Pod) cri.PullCredentials {
	var revision strings.Builder
	objects := r.objectsOf(pod)
	for _, ref := range pod.Spec.ImagePullSecrets {
		if secret, ok := objects.Secret(pod.Namespace, ref.Name); ok {
			revision.WriteString(ref.Name + "=" + secret.ResourceVersion + "\n")
		}
	}
	own := func(image string) []cri.Credential {
		parsed, err := credential.ParseImage(image)
		if err != nil {
			return nil
		}
		found, _, _ := r.secretCredentials(pod, parsed) // a pull reports what is wrong
		return found
	}
	return cri.PullCredentials{Revision: revision.String(), Own: own,
		Lookup: func(ctx context.Context, image string) ([]cri.Credential, error) {
			parsed, err := credential.ParseImage(image)
			if err != nil {
				return nil, err
			}
			found, missing, err := r.secretCredentials(pod, parsed)
			if len(missing) > 0 && pod.Name != "" {
				r.cfg.Events.Event(pod, v1.EventTypeWarning, reasonNoPullSecret,
					fmt.Sprintf("Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.",
						strings.Join(missing, ", ")))
			}
			if r.cfg.Credentials == nil {
				return found, err
			}
			more, moreErr := r.cfg.Credentials.Lookup(ctx, parsed)
			return append(found, more...), errors.Join(err, moreErr)
		}}
}

// secretCredentials returns the credentials for an image in the pod's own pull
// secrets, and the names of those that do not exist. As in the kubelet, the pull is
// attempted even if a Secret is missing; unlike there, the error of a failed pull names
// the Secret.
func (r *Resolver) secretCredentials(pod *v1.Pod, image credential.Image) (found []cri.Credential, missing []string,
	err error) {
	objects := r.objectsOf(pod)
	var errs []error
	for i, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" {
			continue
		}
		origin := "Secret " + pod.Namespace + "/" + ref.Name
		secret, ok := objects.Secret(pod.Namespace, ref.Name)
		if !ok {
			missing = append(missing, ref.Name)
			what, remedy := objects.Missing(
				manifest.ObjectRef{Kind: manifest.KindSecret, Namespace: pod.Namespace, Name: ref.Name})
			errs = append(errs, fmt.Errorf("imagePullSecrets[%d]: %s %s; %s", i, origin, what, remedy))
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
			err = fmt.Errorf("imagePullSecrets[%d]: %s has type %q; use %s", i, origin, secret.Type,
				v1.SecretTypeDockerConfigJson)
		}
		errs = append(errs, err)
		for _, c := range keyring.Lookup(image) {
			c.Secret = pullrecords.Secret{UID: string(secret.UID), Namespace: pod.Namespace, Name: ref.Name}
			found = append(found, c)
		}
	}
	return found, missing, errors.Join(errs...)
}
