package admit

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	podinfo "github.com/podstead/podstead/internal/pod"
)

func TestTaints(t *testing.T) {
	node := Node{Taints: func() []v1.Taint {
		return []v1.Taint{{Key: "only", Value: "edge", Effect: v1.TaintEffectNoExecute},
			{Key: "busy", Effect: v1.TaintEffectNoSchedule}}
	}}
	for name, tc := range map[string]struct {
		source      string
		tolerations string
		denied      bool
	}{
		"none":              {"api", `[]`, true},
		"that one":          {"api", `[{key: only, value: edge, effect: NoExecute}]`, false},
		"for some time":     {"api", `[{key: only, operator: Exists, tolerationSeconds: 300}]`, false},
		"all":               {"api", `[{operator: Exists}]`, false},
		"another effect":    {"api", `[{key: only, value: edge, effect: NoSchedule}]`, true},
		"another value":     {"api", `[{key: only, value: core}]`, true},
		"a number":          {"api", `[{key: only, operator: Gt, value: "1"}]`, true},
		"a pod of a file":   {"file", `[]`, false},
		"a pod of a URL":    {"http", `[]`, false},
		"unknown source":    {"", `[]`, false},
		"one of two fits":   {"api", `[{key: x}, {key: only, operator: Exists}]`, false},
		"only the other is": {"api", `[{key: busy, operator: Exists}]`, true},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{podinfo.AnnotationSource: tc.source}}}
		if err := yaml.UnmarshalStrict([]byte(tc.tolerations), &pod.Spec.Tolerations); err != nil {
			t.Fatal(err)
		}
		got := Check(pod, &node)
		if (got != nil) != tc.denied || got != nil &&
			(got.Reason != ReasonTaint || !strings.Contains(got.Message, "only=edge:NoExecute;")) {
			t.Errorf("%s: %+v", name, got)
		}
		if got := Check(pod, &Node{}); got != nil {
			t.Errorf("%s, without a cluster: %+v", name, got)
		}
	}
}
