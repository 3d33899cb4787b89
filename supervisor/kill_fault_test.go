package supervisor

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

// showsKillFault reports whether the status of a pod shows that it could not be stopped.
func (d *daemon) showsKillFault(uid types.UID, words string) bool {
	for _, pod := range d.Pods() {
		if pod.UID == uid && pod.Status.Reason == cri.ReasonFailedKillPod && strings.Contains(pod.Status.Message, words) {
			return true
		}
	}
	return false
}

// longID matches an ID of the runtime.
var longID = regexp.MustCompile(`[0-9a-f]{64}`)

// A pod that cannot be stopped or removed shows that in its status and by an event, with names instead of the
// runtime's IDs, until it could be.
func TestFailedStopAndRemovalAreShown(t *testing.T) {
	for method, fault := range map[string]critest.Fault{
		"StopContainer":    {Times: -1, Before: errors.New("shim is stuck")},
		"StopPodSandbox":   {Times: -1, Before: errors.New("CNI is broken")},
		"RemoveContainer":  {Times: -1, Before: errors.New("device or resource busy")},
		"RemovePodSandbox": {Times: -1, Before: errors.New("unexpected end of JSON input")},
	} {
		t.Run(method, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				d := b.start()
				d.config.deliver(file, testPod("web", "u1", "r1"))
				b.runs("u1")
				injected := b.fake.Inject(method, fault)
				d.config.deliver(file)
				b.until(time.Minute, "the status shows the failure",
					func() bool { return d.showsKillFault("u1", fault.Before.Error()) })
				events := 0
				for _, e := range d.events.List() {
					if e.Reason == cri.ReasonFailedKillPod && e.Type == "Warning" &&
						strings.Contains(e.Message, fault.Before.Error()) {
						events += int(max(e.Count, 1))
						if longID.MatchString(e.Message) || strings.Count(e.Message, "failed to stop") > 1 {
							t.Errorf("the event has an ID, or says it twice: %s", e.Message)
						}
					}
				}
				if failed := b.fake.Calls(method); events != failed {
					t.Errorf("%d events %s for %d calls that failed: %+v", events, cri.ReasonFailedKillPod, failed, d.events.List())
				}
				injected.Remove()
				b.gone("u1")
				b.until(time.Minute, "the pod is forgotten", func() bool { return len(d.Pods()) == 0 })
			})
		})
	}
}

// A runtime that goes on with the start of a pod after that has ended creates the
// pod's cgroup again.
func TestCgroupCreatedAfterTheEndOfItsPod(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		cgroups := newFakeCgroups()
		b.cgroups = cgroups
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"), testPod("db", "u2", "r1"))
		b.runs("u1")
		b.runs("u2")
		d.config.deliver(file, testPod("db", "u2", "r1"))
		b.gone("u1")
		b.until(time.Minute, "the pod's cgroup is removed", func() bool { return !cgroups.has("u1") })
		b.after(10 * time.Second)
		cgroups.mu.Lock()
		cgroups.pods["u1"] = "/root/podu1"
		cgroups.pods["u9"] = "/root/podu9" // that of another daemon, which starts it
		cgroups.mu.Unlock()
		b.until(2*time.Minute, "the cgroup is removed again", func() bool { return !cgroups.has("u1") })
		b.runs("u2")
		if !cgroups.has("u2") || !cgroups.has("u9") {
			t.Errorf("cgroups left: %v, want those of u2 and u9", cgroups.Pods())
		}
	})
}

// A pod that is restarted and whose previous containers cannot be removed shows that, and starts
// when they could be.
func TestFailedRemovalOfThePreviousRunIsShown(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := testPod("web", "u1", "r1")
		pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure // the containers of the previous run are removed
		d := b.start()
		d.config.deliver(file, pod)
		b.runs("u1")
		fault := critest.Fault{Times: -1, Before: errors.New("device or resource busy")}
		injected := b.fake.Inject("RemoveContainer", fault)
		if err := d.Restart("u1", "asked", time.Time{}); err != nil {
			t.Fatal(err)
		}
		b.until(time.Minute, "the status shows the failure",
			func() bool { return d.showsKillFault("u1", fault.Before.Error()) })
		found := false
		for _, e := range d.events.List() {
			found = found || e.Reason == cri.ReasonFailedKillPod && strings.Contains(e.Message, fault.Before.Error())
		}
		if !found {
			t.Errorf("no event: %+v", d.events.List())
		}
		injected.Remove()
		b.until(5*time.Minute, "it runs and shows no failure", func() bool {
			return b.running("u1") == 1 && d.status("u1").Phase == v1.PodRunning && !d.showsKillFault("u1", "")
		})
	})
}
