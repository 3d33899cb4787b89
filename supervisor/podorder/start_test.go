package podorder

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func statusOf(phase v1.PodPhase, ready bool, change ...func(*v1.PodStatus)) *v1.PodStatus {
	c := v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionFalse, Message: "containers with unready status: [app]"}
	if ready {
		c.Status, c.Message = v1.ConditionTrue, ""
	}
	st := &v1.PodStatus{Phase: phase, Conditions: []v1.PodCondition{{Type: v1.PodInitialized}, c}}
	for _, f := range change {
		f(st)
	}
	return st
}

func because(reason, message string) func(*v1.PodStatus) {
	return func(st *v1.PodStatus) { st.Reason, st.Message = reason, message }
}

func TestStartBlock(t *testing.T) {
	ready := dependency{name: "default/ready", known: true, runs: true, status: statusOf(v1.PodRunning, true)}
	known := func(st *v1.PodStatus) dependency {
		return dependency{name: "default/db", known: true, runs: true, status: st}
	}
	pulling := statusOf(v1.PodPending, false)
	pulling.ContainerStatuses = []v1.ContainerStatus{
		{Name: "app", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	created := statusOf(v1.PodRunning, false)
	created.ContainerStatuses = []v1.ContainerStatus{
		{Name: "app", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}}}
	for name, c := range map[string]struct {
		dependencies []dependency
		undelivered  bool
		reason       string
		message      string
		event        string
	}{
		"ready": {dependencies: []dependency{ready}},
		"succeeded": {dependencies: []dependency{ready,
			{name: "default/job", known: true, status: statusOf(v1.PodSucceeded, false)}}},
		"not ready": {[]dependency{ready, known(statusOf(v1.PodRunning, false))}, false, ReasonNotReady,
			"waits for pod default/db, which is not Ready: containers with unready status: [app]", "Waiting for default/db"},
		"not started": {[]dependency{known(nil)}, false, ReasonNotReady,
			"waits for pod default/db, which is not Ready: it has not started", "Waiting for default/db"},
		"pulling": {[]dependency{known(pulling)}, false, ReasonNotReady,
			"waits for pod default/db, which is not Ready: container app is waiting: ImagePullBackOff",
			"Waiting for default/db"},
		"created": {[]dependency{known(created)}, false, ReasonNotReady,
			"waits for pod default/db, which is not Ready: container app is starting",
			"Waiting for default/db"},
		"failed": {[]dependency{known(statusOf(v1.PodFailed, false, because("Evicted", "low on memory")))},
			false, ReasonNotReady, "waits for pod default/db, which is not Ready: it has failed: Evicted low on memory",
			"Waiting for default/db"},
		"failed without a reason": {[]dependency{known(statusOf(v1.PodFailed, false))}, false, ReasonNotReady,
			"waits for pod default/db, which is not Ready: it has failed", "Waiting for default/db"},
		"held": {[]dependency{known(statusOf(v1.PodPending, false, because("OutOfcpu", "")))}, false, ReasonNotReady,
			"waits for pod default/db, which is not Ready: OutOfcpu", "Waiting for default/db"},
		"waits itself": {[]dependency{known(statusOf(v1.PodPending, false, because(ReasonNotFound, "…")))}, false,
			ReasonNotReady, "waits for pod default/db, which is not Ready: it waits for its own dependencies " +
				"(DependencyNotFound)", "Waiting for default/db"},
		"ready of a run that ends": {[]dependency{{name: "default/db", known: true, status: statusOf(v1.PodRunning, true)}},
			false, ReasonNotReady,
			"waits for pod default/db, which is not Ready: it is terminating or about to start", "Waiting for default/db"},
		"unknown": {[]dependency{ready, {name: "default/gone"}}, false, ReasonNotFound,
			"waits for pod default/gone, which no manifest of this node declares; add the manifest, or correct the annotation " +
				"podstead.io/depends-on",
			"waits for pod default/gone, which no manifest of this node declares; add the manifest, or correct the annotation " +
				"podstead.io/depends-on"},
		"not known yet": {[]dependency{{name: "default/gone"}}, true, ReasonNotReady,
			"waits for pod default/gone, which is not known yet: not all sources have delivered their manifests",
			"Waiting for default/gone"},
		"many": {[]dependency{{name: "a/1", known: true}, {name: "a/2", known: true}, {name: "a/3", known: true},
			{name: "a/4", known: true}, {name: "a/5", known: true}}, false, ReasonNotReady,
			"waits for pod a/1, which is not Ready: it has not started; and for pod a/2, which is not Ready: it has not " +
				"started; and for pod a/3, which is not Ready: it has not started (and 2 more)",
			"Waiting for a/1, a/2, a/3 (and 2 more)"},
	} {
		block := startBlock(c.dependencies, !c.undelivered)
		if block == nil {
			block = &Block{}
		}
		if block.Reason != c.reason || block.Message != c.message || block.Event != c.event ||
			block.Faulty != (c.reason == ReasonNotFound) {
			t.Errorf("%s: %+v\nwant %+v", name, block, c)
		}
	}
	long := startBlock([]dependency{
		known(statusOf(v1.PodPending, false, because("FailedMount", strings.Repeat("é", 500))))}, true)
	if len(long.Message) > 300 || !strings.HasSuffix(long.Message, "é…") {
		t.Errorf("a long state: %s", long.Message)
	}
}

func TestCycleBlock(t *testing.T) {
	short := cycleBlock([]string{"default/a", "default/b", "default/a"})
	if want := "depends on itself through default/a ▸ default/b ▸ default/a; remove one of these dependencies from the " +
		"annotation podstead.io/depends-on"; short.Message != want || !short.Faulty {
		t.Errorf("%+v, want %s", short, want)
	}
	way := strings.Split("a b c d e f g h i a", " ")
	if got := cycleBlock(way).Message; !strings.HasPrefix(got,
		"depends on itself through a ▸ b ▸ c ▸ … (9 pods) … ▸ h ▸ i ▸ a;") {
		t.Errorf("a long way: %s", got)
	}
}
