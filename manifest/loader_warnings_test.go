package manifest

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

const podWithWarning = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: web
    image: nginx:1.27
    ports: [{name: http, containerPort: 80}]
    readinessProbe: {tcpSocket: {port: https}}
`

// A warning does not reject the pod, and is reported again for a known pod.
func TestWarningsDoNotReject(t *testing.T) {
	loader := NewLoader("Node1", ModeStrict)
	request := LoadRequest{Source: SourceFile, Unit: "web.yaml", Data: []byte(podWithWarning)}
	content, faults := loader.Load(request)
	if len(content.Documents) != 1 || len(faults) != 1 || !faults[0].Warning {
		t.Fatalf("%d documents, faults %v", len(content.Documents), faults)
	}
	const want = `web.yaml:10: Pod default/web: spec.containers[0].readinessProbe.tcpSocket.port: container "web" has no port named "https"; give one of its ports that name, or use the number`
	if got := faults.Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	request.Known = func(string) (*v1.Pod, bool) { return content.Documents[0].Pod, true }
	if _, again := loader.Load(request); again.Error() != want {
		t.Errorf("of a known pod: got  %s\nwant %s", again.Error(), want)
	}
}

// For a rejected pod only the faults are reported, since missing parts would cause
// further warnings.
func TestNoWarningsWithFaults(t *testing.T) {
	text := strings.Replace(podWithWarning, "{name: http,", "{nam: https,", 1)
	_, faults := NewLoader("Node1", ModeStrict).Load(LoadRequest{Source: SourceFile, Unit: "web.yaml", Data: []byte(text)})
	if len(faults) != 1 || faults[0].Warning {
		t.Errorf("faults %v", faults)
	}
}

// The setting of the container overrides that of the pod.
func TestWarnAboutRootUser(t *testing.T) {
	for text, want := range map[string]string{
		"securityContext: {runAsUser: 0, runAsNonRoot: true}\n  containers: [{name: a, image: a}, {name: b, image: b}]":                                                      "spec.securityContext.runAsUser",
		"securityContext: {runAsNonRoot: true}\n  containers: [{name: a, image: a, securityContext: {runAsUser: 0}}]":                                                        "spec.containers[0].securityContext.runAsUser",
		"securityContext: {runAsNonRoot: true}\n  containers: [{name: a, image: a, securityContext: {runAsUser: 0, runAsNonRoot: false}}]":                                   "",
		"securityContext: {runAsUser: 0, runAsNonRoot: true}\n  containers: [{name: a, image: a, securityContext: {runAsUser: 7}}]":                                          "",
		"securityContext: {runAsUser: 0}\n  containers: [{name: a, image: a}]":                                                                                               "",
		"securityContext: {runAsUser: 5}\n  initContainers: [{name: a, image: a, securityContext: {runAsUser: 0, runAsNonRoot: true}}]\n  containers: [{name: b, image: b}]": "spec.initContainers[0].securityContext.runAsUser",
	} {
		_, faults := loadText(ModeStrict, "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  "+text+"\n")
		got := ""
		if len(faults) > 0 {
			got = faults[0].Path
		}
		if got != want || len(faults) > 1 || faults.Fatal() {
			t.Errorf("%s:\ngot %v, want one at %q", text, faults, want)
		}
	}
}
