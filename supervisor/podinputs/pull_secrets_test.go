package podinputs

import (
	"context"
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/pullrecords"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/credential"
)

type nodeCredentials struct{ err error }

func (n nodeCredentials) Lookup(context.Context, credential.Image) ([]cri.Credential, error) {
	return []cri.Credential{{Origin: "node", Username: "node"}}, n.err
}

func TestPullCredentialsInOrder(t *testing.T) {
	objects := newTestObjects()
	objects.putLogin("new", "1", v1.SecretTypeDockerConfigJson, v1.DockerConfigJsonKey,
		`{"auths": {"r.test": {"username": "new"}}}`)
	objects.putLogin("old", "1", v1.SecretTypeDockercfg, v1.DockerConfigKey, `{"r.test": {"username": "old"}}`)
	pod := testPod("web")
	pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "old"}, {Name: ""}, {Name: "new"}}
	r := New(Config{Objects: objects, Credentials: nodeCredentials{errors.New("no plugin")}, Events: noEvents{}})
	found, err := r.PullCredentials(pod).Lookup(t.Context(), "r.test/web:1")
	var users []string
	for _, c := range found {
		users = append(users, c.Username+" of "+c.Origin)
	}
	if got := strings.Join(users, ", "); got != "old of Secret default/old, new of Secret default/new, node of node" ||
		err == nil || err.Error() != "no plugin" {
		t.Errorf("%s (%v)", got, err)
	}
	// Those of the pod's own Secrets name them; the node's do not.
	own := r.PullCredentials(pod).Own("r.test/web:1")
	if len(own) != 2 || own[0].Secret != (pullrecords.Secret{UID: "uid-old", Namespace: "default", Name: "old"}) ||
		own[1].Username != "new" || found[2].Secret != (pullrecords.Secret{}) {
		t.Errorf("own %+v of %+v", own, found)
	}
	before := r.PullCredentials(pod).Revision
	objects.putLogin("new", "2", v1.SecretTypeDockerConfigJson, v1.DockerConfigJsonKey, `{}`)
	if before == r.PullCredentials(pod).Revision {
		t.Error("the revision did not change with the Secret")
	}
	// An API pod sees no Secret of a manifest.
	pod.Annotations[podinfo.AnnotationSource] = string(manifest.SourceAPI)
	if found, err := r.PullCredentials(pod).Lookup(t.Context(), "r.test/web:1"); len(found) != 1 || err == nil {
		t.Errorf("%v (%v)", found, err)
	}
}

// refusingObjects are those of an API server that refuses to show them.
type refusingObjects struct{ *testClusterObjects }

func (refusingObjects) Missing(manifest.ObjectRef) (what, remedy string) {
	return "cannot be read from the API server: no relation", "allow the node to read it"
}

// What the API server answers about a pull secret is said once.
func TestRefusedPullSecret(t *testing.T) {
	pod := testPod("web")
	pod.Annotations[podinfo.AnnotationSource] = string(manifest.SourceAPI)
	pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "login"}}
	r := New(Config{Objects: newTestObjects(), Events: noEvents{},
		ClusterObjects: refusingObjects{&testClusterObjects{testObjects: newTestObjects()}}})
	_, err := r.PullCredentials(pod).Lookup(t.Context(), "r.test/web:1")
	want := "imagePullSecrets[0]: Secret default/login cannot be read from the API server: no relation; " +
		"allow the node to read it"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
