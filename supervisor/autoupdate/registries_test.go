package autoupdate

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/registry"
	"github.com/podstead/podstead/supervisor/rollout"
	testimage "github.com/podstead/podstead/test/image"
)

// updatedPods implements Rollouts and Images for pods that nothing is known of but their manifests.
type updatedPods []*v1.Pod

func (p updatedPods) AutoUpdated() (targets []rollout.ImageTarget) {
	for _, pod := range p {
		targets = append(targets, rollout.ImageTarget{Manifest: pod, UID: pod.UID})
	}
	return targets
}
func (updatedPods) UpdateImages(string, map[string]string, map[string]string) error { return nil }
func (updatedPods) Subscribe() (<-chan struct{}, func())                            { return nil, func() {} }
func (updatedPods) StoredImage(context.Context, string) (cri.StoredImage, bool, error) {
	return cri.StoredImage{ID: "sha256:older"}, true, nil
}

// Image updates ask registries with the authorities of --registry-ca-file, and without TLS
// those of --plain-http-registry and no other one.
func TestUsesTheSettingsOfRegistries(t *testing.T) {
	served := &testimage.Registry{}
	secure, plain := httptest.NewTLSServer(served), httptest.NewServer(served)
	defer secure.Close()
	defer plain.Close()
	// The certificate is for example.com. The client has the dialer of the default transport.
	transport := http.DefaultTransport.(*http.Transport)
	dial, proxy := transport.DialContext, transport.Proxy
	defer func() { transport.DialContext, transport.Proxy = dial, proxy }()
	transport.Proxy = nil
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		to := plain
		if strings.HasSuffix(address, ":443") {
			to = secure
		}
		return (&net.Dialer{}).DialContext(ctx, network, to.Listener.Addr().String())
	}
	const secureImage, plainImage = "example.com/fleet/web:v1", "plain.test:5000/fleet/web:v1"
	web := testimage.Image{Architecture: "amd64"}
	if err := served.Push(secureImage, web); err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u1", Namespace: "default", Name: "web-n1",
		Annotations: map[string]string{podinfo.AnnotationAutoUpdate: podinfo.AutoUpdateRegistry}}}
	for _, name := range []string{secureImage, plainImage} {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name, Image: name})
	}
	runs := &cri.Pod{UID: pod.UID}
	for _, c := range pod.Spec.Containers {
		runs.Containers = append(runs.Containers, cri.Container{Name: c.Name, ImageRef: "sha256:older"})
	}
	for name, c := range map[string]struct {
		settings registry.Options
		reached  []string
	}{
		"no settings": {},
		"authority":   {registry.Options{CAFile: ca}, []string{secureImage}},
		"without TLS": {registry.Options{PlainHTTP: []string{"plain.test:5000"}}, []string{plainImage}},
		"both": {registry.Options{CAFile: ca, PlainHTTP: []string{"plain.test:5000"}},
			[]string{secureImage, plainImage}},
	} {
		client, err := registry.New(c.settings)
		if err != nil {
			t.Fatal(err)
		}
		pods := updatedPods{pod}
		updater := New(Config{
			Schedule: Schedule{Interval: time.Hour}, Rollouts: pods, Registry: client, Images: pods,
			File:        filepath.Join(t.TempDir(), "autoupdate.json"),
			Observed:    func() *cri.Observed { return &cri.Observed{Own: []*cri.Pod{runs}} },
			Credentials: func(*v1.Pod) cri.PullCredentials { return cri.PullCredentials{} },
		})
		list, err := updater.CheckUpdates(t.Context(), nil, true)
		if err != nil || len(list) != 1 || len(list[0].Containers) != 2 {
			t.Fatalf("%s: %+v (%v)", name, list, err)
		}
		for _, found := range list[0].Containers {
			if want := slices.Contains(c.reached, found.Image); (found.Latest == web.Descriptor().Digest) != want {
				t.Errorf("%s: %+v, reached: %v", name, found, want)
			}
		}
		client.Close()
	}
}
