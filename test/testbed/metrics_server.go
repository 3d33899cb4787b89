package testbed

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/podstead/podstead/test/image"
)

// metricsServerImage is the image of a release of the metrics server, without its tag.
const metricsServerImage = "registry.k8s.io/metrics-server/metrics-server"

// PushMetricsServer pushes the image of the metrics server. manifests are the files to apply
// with kubectl apply -k, by path: those of its release, and one that selects the image and sets
// the variables of its container.
func (r *Registry) PushMetricsServer(variables map[string]string) (manifests map[string]string, err error) {
	version := Version("METRICS_SERVER_VERSION")
	base := filepath.Join(toolsDir(), "metrics-server")
	program, err := os.ReadFile(filepath.Join(toolsDir(), "bin/metrics-server"))
	if err != nil {
		return nil, fmt.Errorf("%w\nrun: make setup", err)
	}
	layer, err := uncompressedLayer([]image.File{{Name: "metrics-server", Data: program}})
	if err != nil {
		return nil, err
	}
	if err := r.Push(metricsServerImage+":"+version,
		imageOf(layer, image.Config{Entrypoint: []string{"/metrics-server"}, User: "65534"})); err != nil {
		return nil, err
	}
	var env strings.Builder
	for name, value := range variables {
		fmt.Fprintf(&env, "{name: %q, value: %q},", name, value)
	}
	manifests = map[string]string{"kustomization.yaml": fmt.Sprintf(`apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [base]
images: [{name: gcr.io/k8s-staging-metrics-server/metrics-server, newName: %s, newTag: %s}]
patches:
- patch: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: metrics-server, namespace: kube-system}
    spec: {template: {spec: {containers: [{name: metrics-server, env: [%s]}]}}}
`, metricsServerImage, version, env.String())}
	files, err := os.ReadDir(base)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(base, f.Name()))
		if err != nil {
			return nil, err
		}
		manifests["base/"+f.Name()] = string(data)
	}
	return manifests, nil
}
