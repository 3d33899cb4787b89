package validation

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The comparison with Kubernetes' own validation is in test/oracle. These
// tests pin the most common errors, and where ours are more precise.

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		manifest string
		want     []string
	}{
		"a good pod":           {`{metadata: {name: web}}`, nil},
		"an empty namespace":   {`{metadata: {name: web, namespace: ""}}`, nil},
		"a bad name":           {`{metadata: {name: Web_1}}`, []string{"metadata.name"}},
		"a uid that leads out": {`{metadata: {name: web, uid: ../../etc}}`, []string{"metadata.uid"}},
		"a uid that is too long": {
			`{metadata: {name: web, uid: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}}`,
			[]string{"metadata.uid"}},
		"no image": {`{spec: {containers: [{name: a, image: a}, {name: b, image: " "}]}}`,
			[]string{"spec.containers[1].image"}},
		"one name twice": {`{spec: {initContainers: [{name: web, image: a}]}}`, []string{"spec.initContainers[0].name"}},
		"a mount of nothing": {`{spec: {containers: [{volumeMounts: [{name: data, mountPath: /data}]}]}}`,
			[]string{"spec.containers[0].volumeMounts[0].name"}},
		"a faulty volume is one fault": {
			`{spec: {containers: [{volumeMounts: [{name: data, mountPath: /data}]}], volumes: [{name: data, hostPath: {path: /a/../b}}]}}`,
			[]string{"spec.volumes[0].hostPath.path"}},
		"a sub path that leads out": {
			`{spec: {containers: [{volumeMounts: [{name: data, mountPath: /a}, {name: data, mountPath: /b, subPath: ../c}]}], volumes: [{name: data}]}}`,
			[]string{"spec.containers[0].volumeMounts[1].subPath"}},
		"a request above the limit": {`{spec: {containers: [{resources: {limits: {cpu: 1}, requests: {cpu: 2}}}]}}`,
			[]string{"spec.containers[0].resources.requests[cpu]"}},
		"one host port twice": {
			`{spec: {containers: [{name: a, ports: [{containerPort: 1, hostPort: 9}]}, {name: b, ports: [{containerPort: 2, hostPort: 9}]}]}}`, []string{"spec.containers[1].ports[0].hostPort"}},
		"an address that is none": {`{spec: {containers: [{ports: [{containerPort: 1, hostPort: 9, hostIP: localhost}]}]}}`,
			[]string{"spec.containers[0].ports[0].hostIP"}},
		"a threshold of two": {`{spec: {containers: [{livenessProbe: {tcpSocket: {port: 1}, successThreshold: 2}}]}}`,
			[]string{"spec.containers[0].livenessProbe.successThreshold"}},
		"two types in one volume": {`{spec: {volumes: [{name: a, emptyDir: {}, hostPath: {path: /a}}]}}`,
			[]string{"spec.volumes[0].hostPath"}},
		"a scheduling gate": {`{spec: {schedulingGates: [{name: wait}]}}`, []string{"spec.schedulingGates"}},
		"all faults at once": {
			`{metadata: {name: Web}, spec: {restartPolicy: Sometimes, dnsPolicy: Mine, containers: [{name: A, ports: [{containerPort: 0}]}]}}`,
			[]string{"metadata.name", "spec.containers[0].name", "spec.containers[0].ports[0].containerPort", "spec.dnsPolicy",
				"spec.restartPolicy"}},
	} {
		t.Run(name, func(t *testing.T) {
			errs := ValidatePod(defaultedPod(t, c.manifest))
			if got := errorPaths(errs); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", errs.ToAggregate(), c.want)
			}
		})
	}
}

// TestErrorsSayWhatIsRight checks the messages, which test/oracle does not compare.
func TestErrorsSayWhatIsRight(t *testing.T) {
	errs := ValidatePod(defaultedPod(t, `
spec:
  containers:
  - {name: a, image: a, volumeMounts: [{name: data, mountPath: ""}]}
  - {name: a, image: a, resources: {limits: {memory: 1Gi}, requests: {memory: 2Gi}}}
`))
	want := []string{
		`spec.containers[0].volumeMounts[0].name: Not found: "data": must be the name of a volume in spec.volumes`,
		`spec.containers[0].volumeMounts[0].mountPath: Required value: must be the directory or file in the container to mount on`,
		`spec.containers[1].resources.requests[memory]: Invalid value: "2Gi": must be at most the limit, 1Gi`,
		`spec.containers[1].name: Duplicate value: "a": the containers of a pod need unique names, including init containers`,
	}
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestMissingNameIsReportedOnce(t *testing.T) {
	pod := defaultedPod(t, `{metadata: {name: x, generateName: web-}}`)
	pod.Name = ""
	errs := ValidatePod(pod)
	if len(errs) != 1 || errs[0].Field != "metadata.name" || errs[0].Type != field.ErrorTypeRequired ||
		strings.Contains(errs[0].Detail, "generateName") {
		t.Errorf("got %v", errs)
	}
}

// TestErrorOrderIsStable catches a rule that iterates over an unsorted map.
func TestErrorOrderIsStable(t *testing.T) {
	pod := defaultedPod(t, `
metadata: {name: web, labels: {"a b": "", "c d": "", "e f": ""}, annotations: {"a b": "", "c d": "", seccomp.security.alpha.kubernetes.io/pod: x, container.seccomp.security.alpha.kubernetes.io/a: x}}
spec:
  os: {name: windows}
  hostPID: true
  hostIPC: true
  nodeSelector: {"a b": "", "c d": ""}
  overhead: {a: 1, b: 1, c: 1}
  containers: [{resources: {limits: {a: 1, b: 1, c: 1}}, securityContext: {privileged: true, runAsUser: 1, runAsGroup: 1}}]
`)
	want := ValidatePod(pod).ToAggregate().Error()
	for range 20 {
		if got := ValidatePod(pod).ToAggregate().Error(); got != want {
			t.Fatalf("got\n%s\nthen\n%s", want, got)
		}
	}
}
