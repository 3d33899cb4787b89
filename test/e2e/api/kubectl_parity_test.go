package api

import (
	"path/filepath"
	"strings"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// compareVerbs checks that kubectl and podstead print the same for templates and custom
// columns, and uses more of kubectl's verbs.
func compareVerbs(k *harness.Kubectl, web string) {
	n, t := k.Node, k.Node.T
	t.Helper()
	for _, args := range [][]string{
		{"get", "pods", "-A", "-o", "jsonpath={.items[*].metadata.name}"},
		{"get", "pods", "-A", "-o", `jsonpath={range .items[*]}{.metadata.namespace}{"\t"}{.metadata.name}{"\n"}{end}`},
		{"get", "pods", "-A", "-o", `jsonpath={.items[?(@.metadata.name=="` + web + `")].status.phase}`},
		{"get", "pods", "-A", "-o", "jsonpath={..image}"},
		{"get", "pods", "-A", "-o", "jsonpath={.items[0:1].spec.containers[-1:].name}"},
		{"get", "pods", "-A", "-o", `jsonpath={.items[*].metadata.annotations.kubernetes\.io/config\.source}`},
		{"get", "pods", "-A", "-o", `jsonpath={.items[*]['metadata.name','kind']}`},
		{"get", "pod", web, "-o", "jsonpath={.metadata.labels}"},
		{"get", "pod", web, "-o", "jsonpath={.spec.terminationGracePeriodSeconds} {.nothing}"},
		{"get", "pods", "-A", "-o", "custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image,NONE:.x"},
		{"get", "pods", "-A", "--sort-by=.metadata.name", "-o", "name"},
		{"get", "pods", "-A", "--field-selector", "status.phase=Running,metadata.name!=" + web, "-o", "name"},
		{"get", "pods", "-A", "-l", "app in (web),!none", "-o", "name"},
		{"get", "cm", "-n", "other", "-o", "jsonpath={.items[*].data}"},
		{"get", "no", "-o", "name"},
	} {
		theirs, err := k.Run(args...)
		if err != nil {
			t.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, theirs)
			continue
		}
		if ours := n.CLI(0, nil, args...); ours != theirs {
			t.Errorf("%s: podstead prints\n%q\nand kubectl\n%q", strings.Join(args, " "), ours, theirs)
		}
	}
	k.Must([]string{"Started"}, "events", "--for", "pod/"+web, "--types=Normal")
	k.Must([]string{"Started"}, "get", "events", "--field-selector", "reason=Started,involvedObject.name="+web)
	k.Must([]string{web}, "get", "all")
	k.Must([]string{"app=web"}, "get", "pods", "--show-labels")
	k.Must([]string{"condition met"}, "wait", "--for=jsonpath={.status.phase}=Running", "pod/"+web, "--timeout=10m")
	k.Must([]string{"condition met"}, "wait", "--for=condition=Ready", "node/"+n.Name, "--timeout=10m")
	k.Must([]string{"red"}, "describe", "configmap", "site", "-n", "other")
	if out, err := k.Run("get", "pod", "nosuch"); err == nil || !strings.Contains(out, `pods "nosuch" not found`) {
		t.Errorf("kubectl get pod nosuch: %v, %s", err, out)
	}
	if out, err := k.Run("get", "pods", "--field-selector", "spec.colour=red"); err == nil ||
		!strings.Contains(out, "spec.colour") {
		t.Errorf("kubectl with an unknown field: %v, %s", err, out)
	}
}

// checkErrors checks what kubectl prints for requests that fail. It reads the details of an
// error, and crashes on one without.
func checkErrors(k *harness.Kubectl, web string) {
	n, t := k.Node, k.Node.T
	t.Helper()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"logs", "nosuch"}, `pods "nosuch" not found`},
		{[]string{"logs", web, "-c", "nosuch"}, "nosuch"},
		{[]string{"delete", "pod", "nosuch"}, `nosuch`},
		{[]string{"exec", "nosuch", "--", "id"}, `pods "nosuch" not found`},
		{[]string{"debug", "nosuch", "--image=" + testbed.BusyboxImage, "--attach=false"}, `pods "nosuch" not found`},
		{[]string{"annotate", "pod", "nosuch", "a=b"}, `pods "nosuch" not found`},
		{[]string{"scale", "deployment", "web", "--replicas=1"}, "deployment"},
		{[]string{"get", "componentstatuses"}, "componentstatuses"},
		{[]string{"create", "namespace", "a"}, "a namespace exists while a manifest uses it"},
		{[]string{"apply", "--server-side", "-f", filepath.Join(n.Manifests, "web.yaml")},
			"server-side apply is not supported"},
	} {
		out, err := k.Run(c.args...)
		if err == nil || !strings.Contains(out, c.want) || strings.Contains(out, "panic") ||
			strings.Contains(out, "goroutine") {
			t.Errorf("kubectl %s: %v\n%s\nwant an error with %q", strings.Join(c.args, " "), err, out, c.want)
		}
	}
}
