package status

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// anyPod returns a pod with random policies and rules.
func anyPod(rnd *rand.Rand) *v1.Pod {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	container := func(name string) v1.Container {
		c := v1.Container{Name: name}
		if policy := v1.ContainerRestartPolicy(pick("", "", "Always", "OnFailure", "Never")); policy != "" {
			c.RestartPolicy = &policy
			for range rnd.IntN(3) {
				c.RestartPolicyRules = append(c.RestartPolicyRules, v1.ContainerRestartRule{
					Action: v1.ContainerRestartRuleAction(pick("Restart", "Restart", "RestartAllContainers")),
					ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
						Operator: v1.ContainerRestartRuleOnExitCodesOperator(pick("In", "NotIn")),
						Values:   []int32{int32(rnd.IntN(3))},
					},
				})
			}
		}
		return c
	}
	p := pod(v1.RestartPolicy(pick("Always", "OnFailure", "Never")))
	p.Spec.Containers = nil
	for i := range 1 + rnd.IntN(3) {
		p.Spec.Containers = append(p.Spec.Containers, container(fmt.Sprint("c", i)))
	}
	for i := range rnd.IntN(4) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, container(fmt.Sprint("i", i)))
	}
	return p
}

// anyLook returns the observed status of a pod, as it may be when the daemon
// first observes it: all the containers before a random one exist. At most two
// instances of each container are left.
func anyLook(rnd *rand.Rand, p *v1.Pod) *cri.PodStatus {
	s := observed()
	s.Sandboxes[0].Ready = rnd.IntN(3) > 0
	reached := rnd.IntN(len(p.Spec.InitContainers) + 1)
	add := func(c *v1.Container, states ...cri.State) {
		for n := rnd.IntN(2); n >= 0; n-- {
			k := exited(c.Name, int32(rnd.IntN(4)))
			if rnd.IntN(8) == 0 {
				k = outOfMemory(k)
			}
			if n == 0 {
				k.State = states[rnd.IntN(len(states))]
			}
			k.ID, k.RestartCount, k.SandboxID = fmt.Sprint(c.Name, n), 1-n, "s"
			s.Containers = append([]cri.Container{k}, s.Containers...)
		}
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		switch {
		case i > reached:
		case i == reached || podinfo.IsSidecar(c):
			add(c, cri.StateExited, cri.StateRunning, cri.StateCreated, cri.StateUnknown)
		default: // succeeded
			k := exited(c.Name, 0)
			k.ID, k.SandboxID = c.Name, "s"
			s.Containers = append([]cri.Container{k}, s.Containers...)
		}
	}
	if reached == len(p.Spec.InitContainers) {
		for i := range p.Spec.Containers {
			if rnd.IntN(4) > 0 {
				add(&p.Spec.Containers[i], cri.StateExited, cri.StateExited, cri.StateRunning, cri.StateCreated, cri.StateUnknown)
			}
		}
	}
	return s
}

// The plan and the phase apply the same rules: a pod whose phase is terminal
// has nothing to start, and one that has nothing to start and of which nothing
// runs has a terminal phase. Otherwise a pod would be terminated too early, or
// hang forever.
func TestPlanAndPhaseAgree(t *testing.T) {
	for seed := range uint64(20_000) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		p := anyPod(rnd)
		look := anyLook(rnd, p)
		st := Generate(Input{Pod: p, Observed: look, Now: now})
		plan := cri.Plan(cri.PlanInput{Pod: p, Status: look})
		starts := plan.CreateSandbox || len(plan.Start)+len(plan.StartInit) > 0 || plan.RestartAll != nil
		runs := observedPodRuns(look)
		switch {
		case podinfo.IsTerminal(st.Phase) && starts:
			t.Errorf("seed %d: phase %s, but there is more to start: %+v", seed, st.Phase, plan)
		case !podinfo.IsTerminal(st.Phase) && !starts && !runs:
			t.Errorf("seed %d: phase %s, but there is nothing to start: %+v", seed, st.Phase, plan)
		default:
			continue
		}
		t.Logf("policy %s, ready %v", p.Spec.RestartPolicy, look.Sandboxes[0].Ready)
		for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for _, c := range list {
				own := v1.ContainerRestartPolicy("")
				if c.RestartPolicy != nil {
					own = *c.RestartPolicy
				}
				t.Logf("%s %q %+v", c.Name, own, c.RestartPolicyRules)
			}
		}
		for _, c := range look.Containers {
			t.Logf("%s %s exit %d %s", c.Name, c.State, c.ExitCode, c.Reason)
		}
		return
	}
}

func observedPodRuns(s *cri.PodStatus) bool {
	for _, c := range s.Containers {
		if c.State == cri.StateRunning || c.State == cri.StateUnknown {
			return true
		}
	}
	return false
}
