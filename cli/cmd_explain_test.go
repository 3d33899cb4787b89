package cli

import (
	"strings"
	"testing"
)

func TestExplain(t *testing.T) {
	for name, field := range map[string]string{
		"explain-probe.txt":       "pod.spec.containers.livenessProbe",
		"explain-period.txt":      "spec.containers[0].livenessProbe.periodSeconds",
		"explain-unsupported.txt": "pod.spec.volumes.iscsi",
		"explain-ignored.txt":     "pod.spec.schedulerName",
		"explain-security.txt":    "po.spec.containers.securityContext",
	} {
		out, errs, err := execute(t, "", "explain", field)
		if err != nil || errs != "" {
			t.Errorf("%s: %v %s", field, err, errs)
		}
		golden(t, name, out)
	}
	for field, want := range map[string]string{
		"pod.spec.container":        `did you mean "containers"?`,
		"pod.spec.nodeName.x":       "since it has no fields",
		"deployment.spec":           "only fields of a pod",
		"pod.spec.containers.image": "",
	} {
		_, _, err := execute(t, "", "explain", field)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", field, err, want)
		}
	}
	if out, _, err := execute(t, "", "explain", "pod", "--recursive"); err != nil || strings.Count(out, "\n") < 900 {
		t.Errorf("--recursive: %v, %d lines", err, strings.Count(out, "\n"))
	}
}
