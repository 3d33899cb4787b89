package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/pullrecords"
	"github.com/podstead/podstead/internal/imagepolicy"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// tenantsHarness is an image manager with records, for the pods of two tenants and for
// static pods.
type tenantsHarness struct {
	*imageManager
	registry *registry
	ensured  []string
	events   *eventLog
}

func newTenantsHarness(dir, mode string) *tenantsHarness {
	h := &tenantsHarness{registry: newRegistry(), events: &eventLog{}}
	h.imageManager = newImageManager(ImageConfig{Runtime: h.registry, Policy: imagepolicy.Policy{Mode: mode},
		Records: pullrecords.Open(pullrecords.Config{Dir: dir, Images: h.registry}), Ensured: func(e EnsuredImage) {
			text := func(b *bool) string {
				if b == nil {
					return "unknown"
				}
				return fmt.Sprint(*b)
			}
			h.ensured = append(h.ensured, fmt.Sprintf("%s present %s pull %s %s", e.Policy, text(e.Present),
				text(e.PullRequired), e.Checked))
		}}, h.events)
	return h
}

// run ensures an image for a pod of a source with the logins of a tenant's Secret.
func (h *tenantsHarness) run(source podinfo.Source, tenant, image string, policy v1.PullPolicy,
	users ...string) *waiter {
	var logins []Credential
	for _, u := range users {
		logins = append(logins, Credential{
			Origin: "Secret", Username: u, Password: "pass-" + u,
			Secret: pullrecords.Secret{UID: "uid-" + tenant, Namespace: tenant, Name: "login"},
		})
	}
	credentials := PullCredentials{
		Lookup: func(context.Context, string) ([]Credential, error) { return logins, nil },
		Own:    func(string) []Credential { return logins },
	}
	w := &waiter{}
	pod := desiredPod("", nil)
	pod.UID, pod.Annotations = types.UID(tenant), map[string]string{podinfo.AnnotationSource: string(source)}
	go func() {
		w.ref, w.err = h.ensure(context.Background(), pod, image, policy, credentials)
		w.done = true
	}()
	synctest.Wait()
	return w
}

// A pod of a cluster does not get an image that another one's Secret pulled; it pulls
// with its own, or does not learn that the image is there. A static pod gets what is
// there.
func TestImageOfAnotherTenant(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h := newTenantsHarness(dir, "")
		const image = "r.test/web:1"
		id := "sha256:" + strings.Repeat("a", 64)
		h.registry.response(image+" as a", nil)
		if w := h.run(podinfo.SourceAPI, "a", image, v1.PullIfNotPresent, "a"); w.err != nil {
			t.Fatal(w.err)
		}
		h.registry.present[image] = id // the record of its ID was made by name
		h.registry.response(image+" as a", nil)
		if w := h.run(podinfo.SourceAPI, "a", image, v1.PullAlways, "a"); w.err != nil {
			t.Fatal(w.err)
		}
		pulls := len(h.registry.pulls())
		for _, policy := range []v1.PullPolicy{v1.PullIfNotPresent, v1.PullNever} {
			if w := h.run(podinfo.SourceAPI, "a", image, policy, "a"); w.ref != id {
				t.Errorf("the tenant's own pod, %s: %q, %v", policy, w.ref, w.err)
			}
			if w := h.run(podinfo.SourceFile, "static", image, policy); w.ref != id {
				t.Errorf("a static pod, %s: %q, %v", policy, w.ref, w.err)
			}
		}
		want := Waiting{"ErrImageNeverPull", `Container image "r.test/web:1" is not present with pull policy of Never`}
		if w := h.run(podinfo.SourceAPI, "b", image, v1.PullNever); w.waiting() != want {
			t.Errorf("policy Never: %v, want %v", w.err, want)
		}
		if got := len(h.registry.pulls()); got != pulls {
			t.Errorf("%d pulls", got-pulls)
		}
		h.registry.response(image+" as b", errors.New("401 Unauthorized"))
		if w := h.run(podinfo.SourceAPI, "b", image, v1.PullIfNotPresent, "b"); w.waiting().Reason != "ErrImagePull" ||
			!strings.Contains(w.waiting().Message, "401") {
			t.Errorf("a wrong login: %v", w.err)
		}
		if w := h.run(podinfo.SourceAPI, "b", image, v1.PullIfNotPresent, "b"); w.waiting().Reason != "ImagePullBackOff" {
			t.Errorf("a wrong login again: %v", w.err)
		}
		h.registry.response(image+" as c", nil)
		if w := h.run(podinfo.SourceAPI, "c", image, v1.PullIfNotPresent, "c"); w.err != nil {
			t.Errorf("a right login: %v", w.err)
		}
		if w := h.run(podinfo.SourceAPI, "c", image, v1.PullNever, "c"); w.ref != id {
			t.Errorf("its second pod: %v", w.err)
		}
		wantEnsured := []string{
			"IfNotPresent present false pull true ", "Always present unknown pull true ",
			"IfNotPresent present true pull false credentialRecordFound", "IfNotPresent present true pull false ",
			"Never present true pull false credentialRecordFound", "Never present true pull false ",
			"Never present true pull true mustAuthenticate",
			"IfNotPresent present true pull true mustAuthenticate", "IfNotPresent present true pull true mustAuthenticate",
			"IfNotPresent present true pull true mustAuthenticate", "Never present true pull false credentialRecordFound",
		}
		if !slices.Equal(h.ensured, wantEnsured) {
			t.Errorf("counted:\n%s\nwant:\n%s", strings.Join(h.ensured, "\n"), strings.Join(wantEnsured, "\n"))
		}
	})
}

// Static pods start with what is on the disk under each policy, without a registry.
func TestStaticPodsAreNotVerified(t *testing.T) {
	for _, mode := range []string{"", imagepolicy.NeverVerify, imagepolicy.NeverVerifyPreloaded,
		imagepolicy.NeverVerifyAllowlisted, imagepolicy.AlwaysVerify} {
		for _, source := range []podinfo.Source{podinfo.SourceFile, podinfo.SourceHTTP} {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				h := newTenantsHarness(dir, mode)
				h.registry.present["web:1"] = "id"
				if w := h.run(source, "static", "web:1", v1.PullIfNotPresent); w.ref != "id" {
					t.Errorf("policy %q, source %s: %v", mode, source, w.err)
				}
			})
		}
	}
}

// A pull that cannot be recorded is made for a static pod, which must start, and not for a
// pod of a cluster: a restart would take the image for a preloaded one.
func TestPullThatCannotBeRecorded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		h := newTenantsHarness(dir, "")
		h.registry.response("web:1", nil)
		if w := h.run(podinfo.SourceFile, "static", "web:1", v1.PullIfNotPresent); w.ref != "pulled-web:1" {
			t.Errorf("a static pod: %v", w.err)
		}
		if w := h.run(podinfo.SourceAPI, "a", "web:2", v1.PullIfNotPresent); w.waiting().Reason != "ErrImagePull" ||
			!strings.Contains(w.waiting().Message, "failed to record image pull intent") {
			t.Errorf("a pod of the cluster: %v", w.err)
		}
		if got := h.registry.pulls(); !slices.Equal(got, []string{"web:1"}) {
			t.Errorf("pulls %q", got)
		}
	})
}
