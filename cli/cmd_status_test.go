package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/cli/nodestatus"
	"github.com/podstead/podstead/cli/terminal"
)

// unhealthyNode is the status of a node with many problems.
func unhealthyNode() *nodestatus.Status {
	node := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-7"}}
	node.Status.NodeInfo = v1.NodeSystemInfo{ContainerRuntimeVersion: "containerd://2.4.2",
		KubeletVersion: "v1.36.6+podstead-1.2.3", KernelVersion: "6.1.0"}
	node.Status.Conditions = []v1.NodeCondition{
		{Type: v1.NodeReady, Status: v1.ConditionTrue, LastTransitionTime: ago(48 * time.Hour)},
		{Type: v1.NodeMemoryPressure, Status: v1.ConditionFalse},
		{Type: v1.NodeDiskPressure, Status: v1.ConditionTrue, LastTransitionTime: ago(5 * time.Minute),
			Message: "nodefs.available is 4%, below the threshold of 10%"},
	}
	var pods []v1.Pod
	for _, p := range samples() {
		if len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].Ready && p.Status.ContainerStatuses[1].Ready {
			p = ready(p)
		}
		since := ago(3 * time.Hour)
		p.Status.StartTime = &since
		pods = append(pods, p)
	}
	return &nodestatus.Status{Node: node, Pods: pods, Now: noon, Sources: []api.ManifestSource{
		{Source: "file", Location: "/etc/pods", Delivered: true, Time: ago(time.Minute).Time, Units: []api.ManifestUnit{
			{Name: "/etc/pods/web.yaml", Pods: []string{"default/web"},
				Faults: []string{"/etc/pods/web.yaml:3: spec.container: is no field of a pod; did you mean containers?"}},
			{Name: "/etc/pods/b.yaml", Pods: []string{"default/b", "default/c"},
				Warnings: []string{"/etc/pods/b.yaml:9: is odd"}},
		}},
		{Source: "http", Location: "http://boot/pods", Fault: "http://boot/pods: answers 503"},
	}}
}

func TestStatusText(t *testing.T) {
	s := unhealthyNode()
	golden(t, "status.txt", s.Text(terminal.Terminal{}))
	golden(t, "status-80.txt", s.Text(terminal.Terminal{Width: 80}))
	if s.Healthy() {
		t.Error("an unhealthy node is healthy")
	}
	golden(t, "status.json", string(indented(t, s.Summary())))
	healthy := &nodestatus.Status{Node: *s.Node.DeepCopy(), Pods: s.Pods[:1], Now: noon,
		Sources: []api.ManifestSource{{Source: "file", Location: "/etc/pods", Delivered: true}}}
	if healthy.Healthy() {
		t.Error("a node under pressure is healthy")
	}
	healthy.Node.Status.Conditions[2].Status = v1.ConditionFalse
	golden(t, "status-healthy.txt", healthy.Text(terminal.Terminal{}))
	if !healthy.Healthy() {
		t.Error("a healthy node is not healthy")
	}
}

// A source that was read, but with an invalid manifest that has no last good
// revision, was neither unread nor are last good manifests in use.
func TestStatusOfIncompleteSource(t *testing.T) {
	for want, incomplete := range map[string][]string{
		"1 pod in 2 manifests, incomplete because z.yaml is invalid; cleanup is suspended until it is valid\n": {
			"/etc/pods/z.yaml"},
		"incomplete because http://boot/pods is invalid; cleanup is suspended until it is valid\n": {"http://boot/pods"},
		"incomplete because y.yaml and z.yaml are invalid; cleanup is suspended until they are valid\n": {"/etc/pods/y.yaml",
			"/etc/pods/z.yaml"},
		"incomplete because x.yaml and 2 more are invalid; cleanup is suspended until they are valid\n": {"/etc/pods/x.yaml",
			"/etc/pods/y.yaml", "/etc/pods/z.yaml"},
	} {
		s := &nodestatus.Status{Node: unhealthyNode().Node, Now: noon, Sources: []api.ManifestSource{{
			Source: "file", Location: "/etc/pods", Time: noon, Incomplete: incomplete,
			Units: []api.ManifestUnit{{Name: "/etc/pods/web.yaml", Pods: []string{"default/web"}},
				{Name: "/etc/pods/z.yaml", Faults: []string{"/etc/pods/z.yaml: x"}}},
		}}}
		if text := s.Text(terminal.Terminal{}); !strings.Contains(text, want) || strings.Contains(text, "not read since") {
			t.Errorf("want %q in:\n%s", want, text)
		}
	}
}

// The key of a revision is longer than the column of the values.
func TestStatusOfArtifact(t *testing.T) {
	s := &nodestatus.Status{Node: unhealthyNode().Node, Now: noon, Sources: []api.ManifestSource{{Source: "oci",
		Location: "127.0.0.1:5000/pods:1", Delivered: true, Time: noon, Units: []api.ManifestUnit{{
			Name: "127.0.0.1:5000/pods", Revision: "sha256:0123"}}}}}
	if text := s.Text(terminal.Terminal{}); !strings.Contains(text, "\n  revision: 127.0.0.1:5000/pods@sha256:0123\n") {
		t.Errorf("the revision is not apart from its key:\n%s", text)
	}
	for line := range strings.Lines(s.Text(terminal.Terminal{Width: 46})) {
		if len(line) > 47 {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
}

func indented(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

func TestStatusCommand(t *testing.T) {
	d := newFakeDaemon(t, ready(samples()[0])).start()
	out, errs, err := execute(t, "", "status", "--api-socket", d.socket)
	if err != nil || errs != "" || !strings.Contains(out, "n1, ready") || !strings.Contains(out, "1 ready") {
		t.Errorf("%v %s\n%s", err, errs, out)
	}
	d.change(func(pods []v1.Pod) []v1.Pod { return append(pods, samples()[1]) })
	out, _, err = execute(t, "", "status", "--api-socket", d.socket, "-o", "json")
	var s struct {
		Healthy bool
		Pods    map[string]int
	}
	if Code(err) != 1 || !Silent(err) || json.Unmarshal([]byte(out), &s) != nil || s.Healthy || s.Pods["failing"] != 1 ||
		s.Pods["ready"] != 1 {
		t.Errorf("with a failing pod: %v\n%s", err, out)
	}
	if _, _, err := execute(t, "", "status", "-o", "wide", "--api-socket", d.socket); Code(err) != ExitUsage {
		t.Errorf("-o wide: %v", err)
	}
}

func TestEventsCommand(t *testing.T) {
	d := newFakeDaemon(t)
	d.events = append(sampleEvents(),
		v1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "n1.x"},
			InvolvedObject: v1.ObjectReference{Kind: "Node", Name: "n1"}, Type: "Normal", Reason: "Starting"})
	d.start()
	for args, want := range map[string]string{
		"":                         "Starting Pulled BackOff",
		"--for web":                "Pulled BackOff",
		"--for pod/web-n1":         "Pulled BackOff",
		"--for node/n1":            "Starting",
		"--types Warning":          "BackOff",
		"--types Normal,Warning":   "Starting Pulled BackOff",
		"--for web --types=Normal": "Pulled",
	} {
		out, errs, err := execute(t, "",
			append([]string{"events", "-o", "jsonpath={.items[*].reason}", "--api-socket", d.socket},
				strings.Fields(args)...)...)
		if err != nil || errs != "" || out != want {
			t.Errorf("events %s: %q %q %v, want %q", args, out, errs, err, want)
		}
	}
	if _, errs, err := execute(t, "", "events", "--for", "none", "--api-socket", d.socket); err != nil ||
		errs != "no events found\n" {
		t.Errorf("none: %q %v", errs, err)
	}
	if _, _, err := execute(t, "", "events", "--types", "Odd", "--api-socket", d.socket); Code(err) != ExitUsage {
		t.Errorf("--types Odd: %v", err)
	}
}

// Completion offers the existing names.
func TestCompletion(t *testing.T) {
	d := newFakeDaemon(t, labelled()...).start()
	for line, want := range map[string]string{
		"get po":                 "pods",
		"get pods ":              "crash init web",
		"get pods web c":         "crash",
		"get node/":              "node/n1",
		"describe pod i":         "init",
		"logs w":                 "web",
		"logs pod/w":             "pod/web",
		"logs web -c ":           "a b",
		"restart ":               "crash init web",
		"get pods -n d":          "default",
		"explain pod.spec.hostN": "pod.spec.hostNetwork",
		"wait --for=re":          "ready revision",
		"events --types W":       "Warning",
	} {
		words := strings.Split(line, " ")
		args := append([]string{"__completeNoDesc", words[0], "--api-socket", d.socket}, words[1:]...)
		out, _, err := execute(t, "", args...)
		got := strings.Fields(out)
		got = slices.DeleteFunc(got, func(w string) bool { return strings.HasPrefix(w, ":") })
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q %v, want %q", line, got, err, want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out, _, err := execute(t, "", "completion", shell); err != nil || !strings.Contains(out, "__complete") {
			t.Errorf("%s: %v", shell, err)
		}
	}
	if out, _, err := execute(t, "", "completion", "fishy"); Code(err) != ExitUsage || out != "" ||
		!strings.Contains(err.Error(), "completion fish?") {
		t.Errorf("an unknown shell: %v, %q", err, out)
	}
	if out, _, err := execute(t, "", "completion"); err != nil || !strings.Contains(out, "bash") {
		t.Errorf("no shell: %v, %q", err, out)
	}
}

// Files that are not read, and containers with a previous environment, are no failure but shown.
func TestStatusOfIgnoredAndOutdated(t *testing.T) {
	p := ready(samples()[0])
	p.Status.Conditions = append(p.Status.Conditions,
		v1.PodCondition{Type: "podstead.io/EnvironmentOutdated", Status: v1.ConditionTrue,
			Message: "container a runs with a previous ConfigMap default/c; to use the present one: podstead restart web"})
	s := unhealthyNode()
	s.Node.Status.Conditions = s.Node.Status.Conditions[:1] // it is ready, without pressure
	s.Pods, s.Sources = []v1.Pod{p},
		[]api.ManifestSource{{Source: "file", Location: "/etc/pods", Delivered: true, Time: noon,
			Ignored: []string{"old", "web.yaml.bak"}}}
	text := s.Text(terminal.Terminal{})
	for _, want := range []string{
		"  ignored: 2 entries are not read: old, web.yaml.bak\n",
		"Outdated:  default/web: container a runs with a previous ConfigMap default/c; to use the present one: podstead " +
			"restart web\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if summary := string(indented(t, s.Summary())); !s.Healthy() ||
		!strings.Contains(summary, `"/etc/pods/web.yaml.bak"`) || !strings.Contains(summary, "podstead restart web") {
		t.Errorf("healthy: %v\n%s", s.Healthy(), summary)
	}
	d := newFakeDaemon(t, p).start()
	if _, errs, err := execute(t, "", "get", "pods", "--api-socket", d.socket); err != nil ||
		errs != "pod: default/web: container a runs with a previous ConfigMap default/c; to use the present one: podstead "+
			"restart web\n" {
		t.Errorf("get pods: %q %v", errs, err)
	}
}

// A damaged record of CSI volumes is a problem of the node's storage.
func TestStatusCSIVolumesUnreadable(t *testing.T) {
	s := unhealthyNode()
	s.Node.Status.Conditions, s.Pods, s.Sources = s.Node.Status.Conditions[:1:1], s.Pods[:1], nil
	if !s.Healthy() {
		t.Fatal("the node is not healthy without the fault")
	}
	s.Node.Status.Conditions = append(s.Node.Status.Conditions, v1.NodeCondition{
		Type: "podstead.io/CSIVolumesUnreadable", Status: v1.ConditionTrue, Message: "restore csi-volumes.json",
	})
	if text := s.Text(terminal.Terminal{}); s.Healthy() || !strings.Contains(text, "restore csi-volumes.json") ||
		strings.Contains(text, "CSIVolumesUnreadable") {
		t.Errorf("healthy: %v\n%s", s.Healthy(), text)
	}
}
