package pod

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestRequests(t *testing.T) {
	const containers = `
initContainers:
- {name: early, resources: {requests: {cpu: 300m, memory: 10Mi}}}
- {name: side, restartPolicy: Always, resources: {requests: {cpu: 50m, memory: 5Mi}}}
- {name: late, resources: {requests: {memory: 100Mi}}}
containers:
- {name: a, resources: {requests: {cpu: 100m, memory: 20Mi, ephemeral-storage: 1Gi}}}
- {name: b, resources: {requests: {cpu: 100m, example.com/thing: "1"}}}
`
	for name, test := range map[string]struct{ spec, want string }{
		"none":          {"containers: [{name: a}]", "{}"},
		"of containers": {containers, "{cpu: 300m, memory: 105Mi, ephemeral-storage: 1Gi, example.com/thing: '1'}"},
		"of the pod": {containers + "resources: {requests: {cpu: 400m, hugepages-2Mi: 4Mi}}",
			"{cpu: 400m, memory: 105Mi, ephemeral-storage: 1Gi, example.com/thing: '1', hugepages-2Mi: 4Mi}"},
		"with overhead": {"overhead: {cpu: 10m, memory: 1Mi}\ncontainers: [{name: a, resources: {requests: {cpu: " +
			"100m}}}]\nresources: {requests: {memory: 9Mi}}", "{cpu: 110m, memory: 10Mi}"},
		"a request of zero": {"containers: [{name: a, resources: {requests: {cpu: '0'}}}]", "{cpu: '0'}"},
		"limits are no part": {"containers: [{name: a, resources: {limits: {cpu: '1'}}}]\nresources: {limits: {cpu: '2'}}",
			"{}"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{}
			if err := yaml.UnmarshalStrict([]byte(test.spec), &pod.Spec); err != nil {
				t.Fatal(err)
			}
			before := pod.DeepCopy().String()
			want := v1.ResourceList{}
			if err := yaml.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			got := Requests(pod)
			if len(got) != len(want) {
				t.Errorf("%v, want %v", got, want)
			}
			for resource, q := range want {
				if have, ok := got[resource]; !ok || have.Cmp(q) != 0 {
					t.Errorf("%s is %s, want %s", resource, have.String(), q.String())
				}
			}
			if pod.String() != before {
				t.Error("the pod was changed")
			}
		})
	}
}
