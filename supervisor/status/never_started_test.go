package status

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// An API pod that has ended has a terminal phase whatever started, and the exit codes
// of the containers that did not.
func TestEndOfAPIPodThatDidNotStart(t *testing.T) {
	fromAPI := func(p *v1.Pod) {
		p.Annotations = map[string]string{podinfo.AnnotationSource: string(podinfo.SourceAPI)}
	}
	const waits = -1
	for name, test := range map[string]struct {
		in    Input
		phase v1.PodPhase
		codes map[string]int32
	}{
		"nothing started": {
			Input{Pod: pod("Always", fromAPI), Observed: observed()}, v1.PodFailed, map[string]int32{"web": 137},
		},
		"no init container started": {
			Input{Pod: pod("Always", fromAPI, initContainers("i", "j")), Observed: observed()}, v1.PodFailed,
			map[string]int32{"i": 137, "j": waits, "web": waits},
		},
		"one init container completed": {
			Input{Pod: pod("Always", fromAPI, initContainers("i", "j")), Observed: observed(exited("i", 0))}, v1.PodFailed,
			map[string]int32{"i": 0, "j": waits, "web": waits},
		},
		"an init container failed": {
			Input{Pod: pod("Always", fromAPI, initContainers("i")), Observed: observed(exited("i", 3))}, v1.PodFailed,
			map[string]int32{"i": 3, "web": waits},
		},
		"only the init containers ran": {
			Input{Pod: pod("Always", fromAPI, initContainers("i")), Observed: observed(exited("i", 0))}, v1.PodFailed,
			map[string]int32{"i": 0, "web": 137},
		},
		"one of two ran": {
			Input{Pod: pod("Never", fromAPI, containers("a", "b")), Observed: observed(exited("a", 0))}, v1.PodFailed,
			map[string]int32{"a": 0, "b": 137},
		},
		"all completed": {
			Input{Pod: pod("Never", fromAPI), Observed: observed(exited("web", 0))}, v1.PodSucceeded, map[string]int32{"web": 0},
		},
		"a static pod runs again": {
			Input{Pod: pod("Always"), Observed: observed()}, v1.PodPending, map[string]int32{"web": waits},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.in.Ended, test.in.Now = true, now
			st := Generate(test.in)
			codes := map[string]int32{}
			for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
				for _, c := range list {
					codes[c.Name] = waits
					if c.State.Terminated != nil {
						codes[c.Name] = c.State.Terminated.ExitCode
					}
				}
			}
			if st.Phase != test.phase || !maps.Equal(codes, test.codes) {
				t.Errorf("%s %v, want %s %v", st.Phase, codes, test.phase, test.codes)
			}
		})
	}
}
