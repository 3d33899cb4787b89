package validation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// The comparison with Kubernetes' own defaulting is in test/oracle. These
// tests pin what the rest of the program relies on.

func TestSetDefaults(t *testing.T) {
	pod := &v1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(`
metadata: {name: web}
spec:
  hostNetwork: true
  containers:
  - name: web
    image: example.com/web
    ports: [{containerPort: 80}]
    resources: {limits: {cpu: 0.0001, memory: 1Gi}, requests: {cpu: 50u}}
    readinessProbe: {httpGet: {port: 80}}
  volumes: [{name: tmp}, {name: host, hostPath: {path: /srv}}]
`), pod); err != nil {
		t.Fatal(err)
	}
	SetDefaults(pod)
	got, err := yaml.Marshal(pod.Spec)
	if err != nil {
		t.Fatal(err)
	}
	const want = `containers:
- image: example.com/web
  imagePullPolicy: Always
  name: web
  ports:
  - containerPort: 80
    hostPort: 80
    protocol: TCP
  readinessProbe:
    failureThreshold: 3
    httpGet:
      path: /
      port: 80
      scheme: HTTP
    periodSeconds: 10
    successThreshold: 1
    timeoutSeconds: 1
  resources:
    limits:
      cpu: 1m
      memory: 1Gi
    requests:
      cpu: 1m
      memory: 1Gi
  terminationMessagePath: /dev/termination-log
  terminationMessagePolicy: File
dnsPolicy: ClusterFirst
enableServiceLinks: true
hostNetwork: true
restartPolicy: Always
schedulerName: default-scheduler
securityContext: {}
terminationGracePeriodSeconds: 30
volumes:
- emptyDir: {}
  name: tmp
- hostPath:
    path: /srv
    type: ""
  name: host
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
}

func TestDefaultPullPolicy(t *testing.T) {
	const digest = "@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	for image, want := range map[string]v1.PullPolicy{
		"web":                           v1.PullAlways,
		"web:latest":                    v1.PullAlways,
		"web:1":                         v1.PullIfNotPresent,
		"web" + digest:                  v1.PullIfNotPresent,
		"web:latest" + digest:           v1.PullAlways,
		"web:1" + digest:                v1.PullIfNotPresent,
		"registry.example.com:5000/web": v1.PullAlways,
		"Not An Image":                  v1.PullIfNotPresent,
		"":                              v1.PullIfNotPresent,
	} {
		if got := defaultPullPolicy(image); got != want {
			t.Errorf("%q: got %s, want %s", image, got, want)
		}
	}
}

func TestContainersTotal(t *testing.T) {
	spec := defaultedPod(t, `
spec:
  initContainers:
  - {name: early, image: a, resources: {requests: {cpu: 3}}}
  - {name: side, image: a, restartPolicy: Always, resources: {requests: {cpu: 1}}}
  - {name: late, image: a, resources: {requests: {cpu: 4}}}
  containers:
  - {name: a, resources: {requests: {cpu: 1}}}
  - {name: b, resources: {requests: {cpu: 2, memory: 1Gi}}}
`).Spec
	total := podinfo.ContainersTotal(&spec, requestsOf)
	// The late init container runs next to the sidecar: 4 + 1.
	if got := total.Cpu().String(); got != "5" {
		t.Errorf("cpu: got %s, want 5", got)
	}
	if got := total.Memory().String(); got != "1Gi" {
		t.Errorf("memory: got %s, want 1Gi", got)
	}
}
