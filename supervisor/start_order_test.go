package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/podorder"
)

// orderPod returns a pod u-NAME with one container NAME that depends on others.
func orderPod(name, dependsOn string) *v1.Pod {
	pod := testPod(name, types.UID("u-"+name), "1")
	pod.Spec.Containers[0].Name = name
	if dependsOn != "" {
		pod.Annotations[podinfo.AnnotationDependsOn] = dependsOn
	}
	return pod
}

// readyAfter gives a pod a readiness probe that first succeeds after the time.
func readyAfter(pod *v1.Pod, seconds int32) *v1.Pod {
	pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{
		ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"check"}}}, InitialDelaySeconds: seconds,
		PeriodSeconds: 1, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 1,
	}
	return pod
}

// firstStart returns when a pod's container was first started, zero if it was not.
func (b *supervisorHarness) firstStart(name string) time.Time {
	var first time.Time
	for _, c := range b.fake.Containers() {
		if c.UID == "u-"+name && (first.IsZero() || c.StartedAt.Before(first)) {
			first = c.StartedAt
		}
	}
	return first
}

// lastEnd returns when the pod's newest container ended.
func (b *supervisorHarness) lastEnd(name string) time.Time {
	var last time.Time
	for _, c := range b.fake.Containers() {
		if c.UID == "u-"+name && c.FinishedAt.After(last) {
			last = c.FinishedAt
		}
	}
	return last
}

// noteEnds notes for each pod how long after a time nothing of it runs any more.
func (b *supervisorHarness) noteEnds(ends map[string]time.Duration, since time.Time, names ...string) {
	for _, name := range names {
		if _, noted := ends[name]; !noted && b.running(types.UID("u-"+name)) == 0 {
			ends[name] = time.Since(since).Round(time.Second)
		}
	}
}

// A pod is started when those are ready or have succeeded that it depends on, and reports
// meanwhile what it waits for. Nothing syncs it meanwhile.
func TestStartOrder(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("setup", critest.Behaviour{RunFor: 3 * time.Second})
		d := b.start()
		// Running, a pod without a readiness probe is ready.
		setup := readyAfter(orderPod("setup", ""), 3600)
		setup.Spec.RestartPolicy = v1.RestartPolicyNever
		db := readyAfter(orderPod("db", "default/setup"), 20)
		d.config.deliver(file, orderPod("client", "db, setup"), db, setup)
		// A sync before the first relist has no reason yet.
		b.until(time.Minute, "setup runs and db waits",
			func() bool { return b.running("u-setup") == 1 && d.status("u-db").Reason != "" })
		st := d.status("u-db")
		if st.Phase != v1.PodPending || st.Reason != podorder.ReasonNotReady ||
			!strings.HasPrefix(st.Message, "waits for pod default/setup, which is not Ready: ") {
			t.Errorf("db waits: %+v", st)
		}
		b.runs("u-db")
		if d.status("u-setup").Phase != v1.PodSucceeded {
			t.Errorf("db started, and setup is %s", d.status("u-setup").Phase)
		}
		b.after(10 * time.Second)
		st = d.status("u-client")
		if want := "waits for pod default/db, which is not Ready: containers with unready status: [db]"; st.Phase != v1.PodPending || st.Reason != podorder.ReasonNotReady || st.Message != want {
			t.Errorf("client waits: %+v", st)
		}
		b.until(time.Minute, "db is ready", func() bool { return isReady(d.status("u-db")) == v1.ConditionTrue })
		if took := b.until(time.Minute, "client runs",
			func() bool { return b.running("u-client") == 1 }); took > 100*time.Millisecond {
			t.Errorf("client started %s after db was ready", took)
		}
		var events []string
		for _, e := range d.events.List() {
			if e.InvolvedObject.Name == "client" && strings.HasPrefix(e.Reason, "Dependency") {
				events = append(events, e.Type+" "+e.Message)
			}
		}
		if want := []string{"Normal Waiting for default/db, default/setup",
			"Normal Waiting for default/db"}; !slices.Equal(events, want) {
			t.Errorf("events %q, want %q", events, want)
		}
	})
}

// While a pod waits for another, it is synced when that changes, and otherwise never.
func TestWaitingForADependencyIsIdle(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file, orderPod("client", "db"))
		b.until(time.Minute, "client waits", func() bool { return d.status("u-client").Reason == podorder.ReasonNotFound })
		before := d.ran.Load()
		b.after(30 * time.Minute)
		if n := d.ran.Load() - before; n > 0 {
			t.Errorf("%d syncs in half an hour", n)
		}
		d.config.deliver(file, orderPod("client", "db"), orderPod("db", ""))
		b.runs("u-client")
		if b.firstStart("client").Before(b.firstStart("db")) {
			t.Error("client started first")
		}
	})
}

func TestDependenciesThatCannotBeMet(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.node.Name = "Edge"
		d := b.start()
		named := orderPod("db-edge", "")
		named.UID = "u-db"
		d.config.deliver(file, orderPod("client-edge", "gone"), orderPod("a-edge", "b"), orderPod("b-edge", "c"),
			orderPod("c-edge", "a"), orderPod("wrong-edge", "db-edge"), named)
		for uid, want := range map[types.UID]string{
			"u-client-edge": "DependencyNotFound waits for pod default/gone, which no manifest of this node declares; add the " +
				"manifest, or correct the annotation podstead.io/depends-on",
			"u-b-edge": "DependencyCycle depends on itself through default/b ▸ default/c ▸ default/a ▸ default/b; remove one " +
				"of these dependencies from the annotation podstead.io/depends-on",
			"u-wrong-edge": "DependencyNotFound waits for pod default/db-edge, which no manifest of this node declares; add " +
				"the manifest, or correct the annotation podstead.io/depends-on" +
				", which names pods as their manifests do: default/db instead of default/db-edge",
		} {
			b.until(time.Minute, string(uid), func() bool { return d.status(uid).Reason != "" })
			if st := d.status(uid); st.Reason+" "+st.Message != want {
				t.Errorf("%s: %s %s", uid, st.Reason, st.Message)
			}
		}
		if lines, err := waitStarted(d, time.Minute); err == nil || len(lines) != 6 ||
			!strings.Contains(strings.Join(lines, "\n"), "db-edge ok") {
			t.Errorf("%v\n%s", err, strings.Join(lines, "\n"))
		}
		// The cycle is broken by an edit of another pod.
		c := orderPod("c-edge", "")
		c.UID = "u-c2"
		d.config.deliver(file, orderPod("a-edge", "b"), orderPod("b-edge", "c"), c)
		b.runs("u-a-edge")
	})
}

// --runonce does not wait for pods whose dependencies did not start.
func TestWaitStartedWithDependencies(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("job", critest.Behaviour{RunFor: time.Second, ExitCode: 1})
		d := b.start()
		job := readyAfter(orderPod("job", ""), 3600)
		job.Spec.RestartPolicy = v1.RestartPolicyNever
		d.config.deliver(file, orderPod("front", "client"), orderPod("client", "job"), job, orderPod("web", ""),
			orderPod("page", "web"))
		lines, err := waitStarted(d, time.Minute)
		want := []string{
			"client pod default/client cannot start: it depends on pod default/job, which did not start or has failed",
			"front pod default/front cannot start: it depends on pod default/client, which did not start or has failed",
			"job ok", "page ok", "web ok",
		}
		if err == nil || !slices.Equal(lines, want) {
			t.Errorf("%v\n%s", err, strings.Join(lines, "\n"))
		}
	})
}

// A dependency that fails, restarts, is edited or removed changes nothing for a pod
// that runs, and a daemon that returns adopts such a pod.
func TestDependencyChangesNothingThatRuns(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		client := orderPod("client", "db")
		d.config.deliver(file, client, orderPod("db", ""))
		b.runs("u-client")
		if err := d.Restart("u-db", "test", time.Time{}); err != nil {
			t.Fatal(err)
		}
		b.until(time.Minute, "db runs again", func() bool { return b.fake.Starts("u-db", "db") == 2 })
		edited := readyAfter(orderPod("db", ""), 3600)
		edited.UID = "u-db2"
		d.config.deliver(file, client, edited)
		b.runs("u-db2")
		d = b.restart(client, edited)
		b.after(time.Minute)
		if st := d.status("u-client"); b.running("u-client") != 1 || st.Phase != v1.PodRunning || st.Reason != "" {
			t.Errorf("with a dependency that is not ready: %+v", st)
		}
		d.config.deliver(file, client)
		b.gone("u-db2")
		if b.running("u-client") != 1 || b.fake.Starts("u-client", "client") != 1 {
			t.Errorf("client was ended or restarted:\n%s", b.fake.Dump())
		}
		// Its own restart is a start, and waits.
		if err := d.Restart("u-client", "test", time.Time{}); err != nil {
			t.Fatal(err)
		}
		b.until(time.Minute, "client waits", func() bool { return d.status("u-client").Reason == podorder.ReasonNotFound })
	})
}

// After a boot and after a kill of the daemon amid the starts, those pods wait that
// have to be started.
func TestStartOrderAfterReboot(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		pods := []*v1.Pod{orderPod("c", "b"), readyAfter(orderPod("b", "a"), 5), readyAfter(orderPod("a", ""), 5)}
		d.config.deliver(file, pods...)
		b.runs("u-b")
		b.sigkill()
		d = b.start()
		d.config.deliver(file, pods...)
		b.runs("u-c")
		if b.firstStart("c").Sub(b.firstStart("b")) < 5*time.Second || b.fake.Starts("u-a", "a") != 1 ||
			b.fake.Starts("u-b", "b") != 1 {
			t.Errorf("after a kill of the daemon:\n%s", b.fake.Dump())
		}
		b.kill()
		b.fake.Reboot()
		booted := time.Now()
		d = b.start()
		d.config.restore(file, pods...)
		b.until(time.Minute, "c waits", func() bool { return d.status("u-c").Reason == podorder.ReasonNotReady })
		b.runs("u-c")
		if took := time.Since(booted); took < 10*time.Second || took > 15*time.Second {
			t.Errorf("started in order %s after the boot", took)
		}
	})
}

// Pods that are removed together end before those that they depend on, and none gets
// less time for it.
func TestEndOrder(t *testing.T) {
	for name, c := range map[string]struct {
		behave critest.Behaviour
		// gap is the time between two ends.
		gap time.Duration
	}{
		"in time":                {critest.Behaviour{StopAfter: 5 * time.Second}, 5 * time.Second},
		"the whole grace period": {critest.Behaviour{IgnoreTerm: true}, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				b.fake.Behave("*", c.behave)
				d := b.start()
				d.config.deliver(file, orderPod("a", ""), orderPod("b", "a"), orderPod("c", "b"), orderPod("d", "b"),
					orderPod("lonely", ""))
				b.runs("u-d")
				b.runs("u-c")
				b.runs("u-lonely")
				removed := time.Now()
				d.config.deliver(file)
				b.after(time.Second)
				if st := d.status("u-a"); st.Reason != podorder.ReasonDependents ||
					st.Message != "terminates after default/b, which depends on it" {
					t.Errorf("a waits: %+v", st)
				}
				if st := d.status("u-b"); st.Message != "terminates after default/c, default/d, which depend on it" {
					t.Errorf("b waits: %+v", st)
				}
				ends := map[string]time.Duration{}
				b.until(5*time.Minute, "all have ended", func() bool {
					b.noteEnds(ends, removed, "a", "b", "c", "d", "lonely")
					return len(d.Pods()) == 0
				})
				for name, want := range map[string]time.Duration{"lonely": c.gap, "c": c.gap, "d": c.gap, "b": 2 * c.gap,
					"a": 3 * c.gap} {
					if ends[name] != want {
						t.Errorf("%s ended after %s, want %s", name, ends[name], want)
					}
				}
			})
		})
	}
}

// One that cannot be stopped does not hold up the pods that it depends on for longer
// than its grace period and what follows it.
func TestEndOrderIsBounded(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file, orderPod("db", ""), orderPod("client", "db"))
		b.runs("u-client")
		stuck := b.fake.Inject("StopContainer", critest.Fault{Container: "client", Hang: true, Times: 1000})
		defer stuck.Release()
		removed := time.Now()
		d.config.deliver(file)
		b.until(5*time.Minute, "db ends", func() bool { return b.running("u-db") == 0 })
		if took := time.Since(removed); took < 30*time.Second || took > 50*time.Second {
			t.Errorf("db ended after %s", took)
		}
		if b.running("u-client") != 1 {
			t.Error("client has ended")
		}
	})
}

// The order holds for pods that were removed while the daemon did not run, and for one
// that is killed meanwhile.
func TestEndOrderOfOrphans(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("*", critest.Behaviour{StopAfter: 5 * time.Second})
		b.node.Name = "edge"
		d := b.start()
		d.config.deliver(file, orderPod("db-edge", ""), orderPod("client-edge", "db"))
		b.runs("u-client-edge")
		d = b.restart()
		b.until(time.Minute, "db waits", func() bool {
			return strings.Contains(d.log.String(), "Pod terminates after the pods that depend on it")
		})
		ends, restarted := map[string]time.Duration{}, time.Now()
		b.until(time.Minute, "both end", func() bool {
			b.noteEnds(ends, restarted, "client-edge", "db-edge")
			return len(ends) == 2
		})
		if gap := ends["db-edge"] - ends["client-edge"]; gap != 5*time.Second {
			t.Errorf("db ended %s after client", gap)
		}
	})
}

// Pods that one change edits are replaced one by one, each as soon as its new revision is
// prepared. The new ones start in order, whichever of the old ones ends first.
func TestReplacedTogether(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("*", critest.Behaviour{StopAfter: 5 * time.Second})
		d := b.start()
		d.config.deliver(file, orderPod("db", ""), orderPod("client", "db"))
		b.runs("u-client")
		db, client := readyAfter(orderPod("db", ""), 3), orderPod("client", "db")
		db.UID, client.UID = "u-db2", "u-client2"
		d.config.deliver(file, db, client)
		b.runs("u-client2")
		if isReady(d.status("u-db2")) != v1.ConditionTrue || b.firstStart("client2").Before(b.firstStart("db2")) {
			t.Errorf("the new client started at %s, the new db at %s", b.firstStart("client2"), b.firstStart("db2"))
		}
		if n := b.running("u-db") + b.running("u-client"); n > 0 {
			t.Errorf("%d containers of the old revisions run", n)
		}
		if b.fake.Starts("u-db2", "db") != 1 || b.fake.Starts("u-client2", "client") != 1 {
			t.Error("a new revision was started twice")
		}
	})
}

// The time that a revision waits for others to start does not count as its own, and does not
// roll it back.
func TestRollbackDoesNotCountTheWait(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		revision := func(pod *v1.Pod, id string) *v1.Pod {
			pod.UID += types.UID(id)
			pod.Annotations[podinfo.AnnotationHash] += id
			pod.Annotations[podinfo.AnnotationRollbackAfter] = "1m"
			pod.Annotations[podinfo.AnnotationReplace] = podinfo.ReplaceKubelet
			return pod
		}
		d := b.start()
		d.config.deliver(file, orderPod("db", ""), revision(orderPod("client", "db"), "1"))
		b.runs("u-client1")
		b.after(time.Minute)
		db2 := readyAfter(orderPod("db", ""), 600)
		db2.UID = "u-db2"
		db2.Annotations[podinfo.AnnotationHash] += "2"
		db2.Annotations[podinfo.AnnotationReplace] = podinfo.ReplaceKubelet
		d.config.deliver(file, db2, revision(orderPod("client", "db"), "2"))
		b.until(15*time.Minute, "a client runs",
			func() bool { return b.running("u-client1") == 0 && b.running("u-client2") == 1 })
		if b.fake.Starts("u-client1", "client") != 1 {
			t.Error("the old client was started again")
		}
		for _, e := range d.events.List() {
			if strings.Contains(e.Message, "rolling back") {
				t.Errorf("event %s: %s", e.Reason, e.Message)
			}
		}
	})
}

// While a pod is replaced, those that wait for it do not report that it does not exist.
func TestEditedDependencyIsKnown(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("*", critest.Behaviour{StopAfter: 5 * time.Second})
		d := b.start()
		client := orderPod("client", "db")
		d.config.deliver(file, client, readyAfter(orderPod("db", ""), 3600))
		b.until(time.Minute, "db runs", func() bool { return b.running("u-db") == 1 })
		for i := range 6 {
			db := readyAfter(orderPod("db", ""), 3600)
			db.UID = types.UID(fmt.Sprintf("u-db-%d", i))
			db.Annotations[podinfo.AnnotationHash] = fmt.Sprint("edit ", i)
			d.config.deliver(file, client, db)
			b.until(time.Minute, "db is replaced", func() bool { return b.running(db.UID) == 1 })
		}
		for _, e := range d.events.List() {
			if e.Reason == podorder.ReasonNotFound {
				t.Fatalf("event %s: %s", e.Reason, e.Message)
			}
		}
		if strings.Contains(d.log.String(), podorder.ReasonNotFound) {
			t.Error("the log says that db does not exist")
		}
	})
}

// A shutdown of the host ends dependents first within a priority group. A pod that
// would have less time for that does not wait.
func TestShutdownInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		behave critest.Behaviour
		period time.Duration
		// db and client are when they end.
		client, db time.Duration
	}{
		"in time": {critest.Behaviour{StopAfter: 4 * time.Second}, 60 * time.Second, 4 * time.Second,
			8 * time.Second},
		"whole periods":     {critest.Behaviour{IgnoreTerm: true}, 60 * time.Second, 30 * time.Second, 60 * time.Second},
		"half of them":      {critest.Behaviour{IgnoreTerm: true}, 45 * time.Second, 30 * time.Second, 45 * time.Second},
		"no time for order": {critest.Behaviour{IgnoreTerm: true}, 20 * time.Second, 20 * time.Second, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				b.fake.Behave("*", c.behave)
				d := b.start()
				pods := []*v1.Pod{orderPod("db", ""), orderPod("client", "db")}
				d.config.deliver(file, pods...)
				b.runs("u-client")
				begun := time.Now()
				b.shutDown(d, c.period)
				for name, want := range map[string]time.Duration{"client": c.client, "db": c.db} {
					if took := b.lastEnd(name).Sub(begun).Round(time.Second); took != want {
						t.Errorf("%s ended after %s, want %s", name, took, want)
					}
				}
				b.fake.Behave("*", critest.Behaviour{})
				b.kill()
				b.fake.Reboot()
				d = b.start()
				d.config.deliver(manifest.SourceFile, pods...)
				b.runs("u-client")
				b.runs("u-db")
			})
		})
	}
}

// A pod with a lower priority is started first after a shutdown if one with a higher
// priority depends on it.
func TestDependencyBeforePriorityAfterBoot(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		high := int32(1000)
		client := orderPod("client", "db")
		client.Spec.Priority = &high
		pods := []*v1.Pod{orderPod("db", ""), client}
		d.config.deliver(file, pods...)
		b.runs("u-client")
		b.shutDown(d, time.Minute)
		b.kill()
		b.fake.Reboot()
		d = b.start()
		booted := time.Now()
		d.config.deliver(file, pods...)
		b.until(time.Minute, "client runs", func() bool { return b.running("u-client") == 1 })
		if took := time.Since(booted); took > 2*time.Second {
			t.Errorf("started %s after the boot", took)
		}
	})
}

// The annotation has no effect on a pod of an API server, which an event reports.
func TestDependsOnOfAnAPIPod(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start(manifest.SourceAPI)
		d.config.deliver(manifest.SourceAPI, orderPod("client", "gone"))
		b.runs("u-client")
		var found bool
		for _, e := range d.events.List() {
			found = found || e.Reason == podorder.ReasonIgnored &&
				strings.Contains(e.Message, "has no effect on a pod of an API server")
		}
		if !found {
			t.Error("no event")
		}
	})
}
