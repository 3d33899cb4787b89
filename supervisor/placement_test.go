package supervisor

import (
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/podstart"
)

func hostTerm(label string) []v1.PodAffinityTerm {
	return []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": label}}}}
}

// placedPod returns a pod with the label app that requires pods with the labels with, and none
// with the label without; empty for no rule.
func placedPod(name, app, with, without string) *v1.Pod {
	pod := testPod(name, types.UID(name), "1")
	pod.Labels = map[string]string{"app": app}
	pod.Spec.Affinity = &v1.Affinity{}
	if with != "" {
		pod.Spec.Affinity.PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: hostTerm(with)}
	}
	if without != "" {
		pod.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: hostTerm(without)}
	}
	return pod
}

// A whole directory of pods starts whatever its order: an affinity waits for its pod without an
// event, the first of a group starts, and of two that exclude each other one runs and the
// other waits, at no cost, over restarts of the daemon and of the host, until that one has ended.
func TestPodPlacement(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.node = admit.Node{Name: "n", Labels: map[string]string{v1.LabelHostname: "n"}}
		near, db := placedPod("a-near", "near", "db", ""), placedPod("b-db", "db", "", "")
		group := placedPod("c-group", "group", "group", "")
		active, standby := placedPod("d-active", "gateway", "", "gateway"), placedPod("e-standby", "gateway", "", "gateway")
		alone := placedPod("f-alone", "alone", "nothing", "")
		d := b.start()
		d.config.deliver(file, near, db, group, active)
		for _, pod := range []*v1.Pod{near, db, group, active} {
			b.runs(pod.UID)
		}
		if events := d.eventsOf(near, admit.ReasonPodAffinity); len(events) > 0 {
			t.Errorf("%v although the other pod is in the same directory", events)
		}
		all := []*v1.Pod{alone, standby, active, group, db, near}
		d.config.deliver(file, all...)
		b.waitsFor(standby.UID, admit.ReasonPodAffinity)
		b.waitsFor(alone.UID, admit.ReasonPodAffinity)
		if st := d.status(standby.UID); !strings.Contains(st.Message, "as pod default/d-active") &&
			!strings.Contains(st.Message, "of pod default/d-active") {
			t.Errorf("message %q", st.Message)
		}
		writes := len(b.fake.Writes())
		for range 2 {
			d = b.restart(all...)
			b.waitsFor(standby.UID, admit.ReasonPodAffinity)
			b.after(time.Minute)
		}
		if more := b.fake.Writes()[writes:]; len(more) > 0 {
			t.Errorf("restarts of the daemon changed the runtime: %v", more)
		}
		ran := d.ran.Load()
		b.after(time.Hour)
		if n := d.ran.Load() - ran; n > 300 {
			t.Errorf("%d syncs in an hour; four pods run, and two wait", n)
		}
		if n := len(d.eventsOf(standby, admit.ReasonPodAffinity)); n > 1 {
			t.Errorf("%d events", n)
		}
		// The pod that an affinity needs ends: what runs goes on.
		d.config.deliver(file, alone, standby, near, group)
		b.runs(standby.UID)
		b.runs(near.UID)
		b.waitsFor(alone.UID, admit.ReasonPodAffinity)
	})
}

// A new revision that may not run next to another pod does not replace the one that runs.
func TestRevisionThatIsMisplaced(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.node = admit.Node{Name: "n", Labels: map[string]string{v1.LabelHostname: "n"}}
		db, web := placedPod("db", "db", "", ""), placedPod("web", "web", "", "web")
		d := b.start()
		d.config.deliver(file, db, web)
		b.runs(db.UID)
		b.runs(web.UID)
		revision := revisedPod("web", "0", "web2")
		revision.Labels, revision.Spec.Affinity = web.Labels, placedPod("web", "web", "", "db").Spec.Affinity
		d.config.deliver(file, db, revision)
		b.after(10 * time.Minute)
		b.runs(web.UID)
		d.config.deliver(file, revision)
		b.runs(revision.UID)
	})
}

// A start waits for what lets a pod run, and fails if nothing is left that could.
func TestStartOfMisplacedPods(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.node = admit.Node{Name: "n", Labels: map[string]string{v1.LabelHostname: "n"}}
		near, db, alone := placedPod("near", "near", "db", ""), placedPod("db", "db", "", ""),
			placedPod("alone", "alone", "nothing", "")
		cache := placedPod("cache", "cache", "", "")
		db.Annotations[podinfo.AnnotationDependsOn] = "cache"
		b.fake.Latency("PullImage", time.Minute)
		d := b.start()
		d.config.deliver(file, near, db, cache)
		lines, err := waitStarted(d, 10*time.Minute)
		if got := strings.Join(lines, ", "); err != nil || got != "cache ok, db ok, near ok" {
			t.Errorf("%v: %s", err, got)
		}
		d.config.deliver(file, near, db, cache, alone)
		b.waitsFor(alone.UID, admit.ReasonPodAffinity)
		lines, err = waitStarted(d, 10*time.Minute)
		if !errors.Is(err, podstart.ErrNotStarted) || len(lines) != 4 ||
			!strings.Contains(lines[0], "pod default/alone cannot start: spec.affinity.podAffinity") {
			t.Errorf("%v: %v", err, lines)
		}
	})
}
