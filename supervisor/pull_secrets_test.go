package supervisor

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/credential"
	"github.com/podstead/podstead/supervisor/podinputs"
)

// secrets holds the objects of a test.
type secrets struct {
	podinputs.NoObjects
	mu      sync.Mutex
	all     map[string]*v1.Secret
	changed chan struct{}
}

func (s *secrets) Secret(_, name string) (*v1.Secret, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	secret, ok := s.all[name]
	return secret, ok
}

func (s *secrets) Subscribe() (<-chan struct{}, func()) { return s.changed, func() {} }

func (s *secrets) store(name, revision string, kind v1.SecretType, key, text string) {
	s.mu.Lock()
	secret := &v1.Secret{Type: kind, Data: map[string][]byte{key: []byte(text)}}
	secret.ResourceVersion = revision
	s.all[name] = secret
	s.mu.Unlock()
	s.changed <- struct{}{}
}

type nodeCredentials struct{ err error }

func (n nodeCredentials) Lookup(context.Context, credential.Image) ([]cri.Credential, error) {
	return []cri.Credential{{Origin: "node", Username: "node"}}, n.err
}

// A missing pull secret causes an event and does not prevent the pull; once it
// exists the pull is retried at once.
func TestPullSecrets(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		objects := &secrets{all: map[string]*v1.Secret{}, changed: make(chan struct{}, 10)}
		b.sources = func(s *Sources) { s.Objects = objects }
		b.fake.SetImages()
		b.fake.SetPullable("other:1")
		pod := testPod("web", "uid-web", "1")
		pod.Spec.Containers[0].Image = "r.test/web:1"
		pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "login"}}
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod)
		b.after(5 * time.Minute)
		waiting := func() string {
			t.Helper()
			c := d.status(pod.UID).ContainerStatuses
			if len(c) != 1 || c[0].State.Waiting == nil {
				t.Fatalf("containers are %+v", c)
			}
			return c[0].State.Waiting.Reason + ": " + c[0].State.Waiting.Message
		}
		if got := waiting(); !strings.HasPrefix(got, "ImagePullBackOff") ||
			!strings.Contains(got, "Secret default/login is in no manifest") {
			t.Errorf("waiting: %s", got)
		}
		if got := d.eventsOf(pod, "FailedToRetrieveImagePullSecret"); len(got) != 1 || !strings.Contains(got[0], "(login)") {
			t.Errorf("events %q", got)
		}
		objects.store("login", "1", v1.SecretTypeOpaque, "password", "hunter2")
		b.after(time.Second)
		if got := waiting(); !strings.Contains(got, `has type "Opaque"`) {
			t.Errorf("waiting: %s", got)
		}
		b.fake.SetPullable("r.test/web:1")
		objects.store("login", "2", v1.SecretTypeDockerConfigJson, v1.DockerConfigJsonKey,
			`{"auths": {"r.test": {"username": "bob", "password": "hunter2"}}}`)
		if took := b.runs(pod.UID); took > 5*time.Second {
			t.Errorf("ran %s after the Secret was created", took)
		}
		if log := d.log.String(); strings.Contains(log, "hunter2") {
			t.Errorf("a secret is in the log:\n%s", log)
		}
	})
}

// Loading an image ends the back-off of the pods that wait for it.
func TestImagesThatComeEndTheBackoff(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages()
		b.fake.SetPullable("other:1")
		d := b.start()
		d.config.deliver(manifest.SourceFile, testPod("web", "u1", "1"))
		// Its next attempt is minutes away.
		b.after(12 * time.Minute)
		b.fake.SetImages("img:1")
		d.ImagesAdded()
		if took := b.runs("u1"); took > 2*time.Second {
			t.Errorf("ran %s after its image was loaded", took)
		}
	})
}

// Credentials without a pod: a missing secret is reported with a failure, not
// as an event.
func TestLoginsForNoPod(t *testing.T) {
	objects := &secrets{all: map[string]*v1.Secret{}, changed: make(chan struct{}, 10)}
	objects.store("there", "1", v1.SecretTypeDockerConfigJson, v1.DockerConfigJsonKey,
		`{"auths": {"r.test": {"username": "bob"}}}`)
	s := &Supervisor{podSyncer: &podSyncer{
		inputs: podinputs.New(podinputs.Config{Objects: objects, Credentials: nodeCredentials{}, Events: panicEvents{}})}}
	found, err := s.PullCredentials("shop", []string{"there", "missing"}).Lookup(t.Context(), "r.test/web:1")
	if len(found) != 2 || found[0].Username != "bob" || found[1].Username != "node" || err == nil ||
		!strings.Contains(err.Error(), "Secret shop/missing is in no manifest") {
		t.Errorf("%v (%v)", found, err)
	}
}

// panicEvents expects no events.
type panicEvents struct{}

func (panicEvents) Event(*v1.Pod, string, string, string) { panic("an event for no pod") }
