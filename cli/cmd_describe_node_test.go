package cli

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cli/describe"
)

func TestDescribeNode(t *testing.T) {
	n := unhealthyNode().Node
	n.CreationTimestamp = ago(72 * time.Hour)
	n.Labels = map[string]string{"kubernetes.io/arch": "amd64", "tier": "edge"}
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.7"},
		{Type: v1.NodeHostName, Address: "edge-7"}}
	n.Status.Capacity = v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"),
		"pods": resource.MustParse("110"), "example.com/serial": resource.MustParse("3")}
	n.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("3500m"), "memory": resource.MustParse("7Gi"),
		"pods": resource.MustParse("110"), "example.com/serial": resource.MustParse("2")}
	always := v1.ContainerRestartPolicyAlways
	web := fullPod()
	web.Spec.InitContainers[len(web.Spec.InitContainers)-1].RestartPolicy = &always
	web.Spec.InitContainers[len(web.Spec.InitContainers)-1].Resources.Requests = v1.ResourceList{
		"cpu": resource.MustParse("50m")}
	serial := v1.ResourceList{"example.com/serial": resource.MustParse("1")}
	web.Spec.Containers[0].Resources.Requests["example.com/serial"] = serial["example.com/serial"]
	web.Spec.Containers[0].Resources.Limits["example.com/serial"] = serial["example.com/serial"]
	web.Status.ContainerStatuses[0].AllocatedResourcesStatus = []v1.ResourceStatus{
		{Name: "example.com/serial",
			Resources: []v1.ResourceHealth{{ResourceID: "/dev/ttyUSB0", Health: v1.ResourceHealthStatusHealthy}}},
	}
	done, failed := fullPod(), fullPod() // have terminated, and request nothing any more
	done.Name, done.Status.Phase = "done", v1.PodSucceeded
	failed.Name, failed.Status.Phase = "failed", v1.PodFailed
	golden(t, "describe-node.txt", describe.NodeText(&n, []*v1.Pod{done, web, failed}, sampleEvents(), noon))
}

func TestDescribeObjects(t *testing.T) {
	d := newFakeDaemon(t, samples()[0])
	d.objects = someObjects
	d.configMaps = []*v1.ConfigMap{
		{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Data: map[string]string{"a": "one\ntwo"}}}
	d.secrets = []*v1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: "login", Namespace: "default"}, Type: "Opaque",
		Data: map[string][]byte{"password": []byte("hunter2")}}}
	d.start()
	run := func(args string) (string, string, int) {
		out, errs, err := execute(t, "", append([]string{"describe", "--api-socket", d.socket}, strings.Fields(args)...)...)
		return out, errs, Code(err)
	}
	if out, errs, code := run("cm/web"); code != 0 || errs != "" || !strings.Contains(out, "/etc/pods/web.yaml") ||
		!strings.Contains(out, "    two\n") {
		t.Errorf("a ConfigMap: %d %s\n%s", code, errs, out)
	}
	if out, _, code := run("secret login"); code != 0 || !strings.HasPrefix(out, "Name:             login\n") ||
		strings.Contains(out, "aHVudGVyMg") {
		t.Errorf("a Secret: %d\n%s", code, out)
	}
	if out, _, code := run("ns default"); code != 0 || !strings.Contains(out, "phase: Active") {
		t.Errorf("a namespace: %d\n%s", code, out)
	}
	if out, _, code := run("pc high"); code != 0 || !strings.Contains(out, "/etc/pods/web.yaml") {
		t.Errorf("a class: %d\n%s", code, out)
	}
	if out, _, code := run("node"); code != 0 || !strings.HasPrefix(out, "Name:             n1\n") ||
		!strings.Contains(out, "web ") {
		t.Errorf("the node: %d\n%s", code, out)
	}
	if out, _, code := run("pods,nodes"); code != 0 || strings.Count(out, "\n\n\nName:") != 1 {
		t.Errorf("two types: %d\n%s", code, out)
	}
	if _, errs, code := run("cm wbe"); code != 1 || !strings.Contains(errs, `did you mean "web"?`) {
		t.Errorf("none: %d %s", code, errs)
	}
	if _, errs, code := run("pods -n none"); code != 0 || errs != "no pods found in namespace none\n" {
		t.Errorf("none: %d %s", code, errs)
	}
	if _, _, code := run(""); code != ExitUsage {
		t.Errorf("nothing: %d", code)
	}
}
