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
		return []v1.Taint{{Key: "only", Value: "edge", Effect: v1.TaintEffectNoExecute}, {Key: "busy", Effect: v1.TaintEffectNoSchedule}}
	}}
	for name, tc := range map[string]struct {
		source      string
		tolerations string
		refused     bool
	}{
		"none":              {sourceAPI, `[]`, true},
		"that one":          {sourceAPI, `[{key: only, value: edge, effect: NoExecute}]`, false},
		"for some time":     {sourceAPI, `[{key: only, operator: Exists, tolerationSeconds: 300}]`, false},
		"all":               {sourceAPI, `[{operator: Exists}]`, false},
		"another effect":    {sourceAPI, `[{key: only, value: edge, effect: NoSchedule}]`, true},
		"another value":     {sourceAPI, `[{key: only, value: core}]`, true},
		"a number":          {sourceAPI, `[{key: only, operator: Gt, value: "1"}]`, true},
		"a pod of a file":   {"file", `[]`, false},
		"a pod of a URL":    {"http", `[]`, false},
		"a pod of nowhere":  {"", `[]`, false},
		"one of two fits":   {sourceAPI, `[{key: x}, {key: only, operator: Exists}]`, false},
		"only the other is": {sourceAPI, `[{key: busy, operator: Exists}]`, true},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{podinfo.AnnotationSource: tc.source}}}
		if err := yaml.UnmarshalStrict([]byte(tc.tolerations), &pod.Spec.Tolerations); err != nil {
			t.Fatal(err)
		}
		got := Judge(pod, &node)
		if (got != nil) != tc.refused || got != nil && (got.Reason != ReasonTaint || !strings.Contains(got.Message, "only=edge:NoExecute;")) {
			t.Errorf("%s: %+v", name, got)
		}
		if got := Judge(pod, &Node{}); got != nil {
			t.Errorf("%s, without a cluster: %+v", name, got)
		}
	}
}
