package supervisor

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/podworkers"
)

// things counts the objects of a supervisorHarness: containers and sandboxes in
// the runtime, files in the daemon's directories.
func (b *supervisorHarness) things() (containers, sandboxes, files int) {
	b.t.Helper()
	err := filepath.WalkDir(b.dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files++
		}
		if os.IsNotExist(err) {
			return nil // removed in the meantime
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return len(b.fake.Containers()), len(b.fake.Sandboxes()), files
}

// A pod that crashes a thousand times, sometimes with its sandbox, under a
// daemon that is restarted, leaves no more behind than one that crashed a few
// times.
func TestCrashLoopLeavesNothingBehind(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.restartCap = time.Second
		b.fake.Behave("app", critest.Behaviour{RunFor: 10 * time.Millisecond, ExitCode: 1})
		d := b.start()
		pod := testPod("web", "u1", "r1")
		d.config.deliver(file, pod)
		restarts := func() int {
			if list := b.daemon.status("u1").ContainerStatuses; len(list) == 1 {
				return int(list[0].RestartCount)
			}
			return 0
		}
		desired := 1000
		if underRace {
			desired = 200
		}
		var most [3]int
		for n := 20; n <= desired; n += 20 {
			b.until(5*time.Minute, "it keeps crashing", func() bool { return restarts() >= n })
			switch {
			case n%200 == 0:
				b.restart(pod)
			case n%100 == 0:
				b.fake.KillSandboxes("web")
			}
			// A round ends at most 2 s after the previous one.
			containers, sandboxes, files := b.things()
			most = [3]int{max(most[0], containers), max(most[1], sandboxes), max(most[2], files)}
		}
		// Two or three instances start in 2 s: each has a log, a link
		// and a termination message, in addition to the record and the
		// pod's own files.
		if most[0] > 6 || most[1] > 3 || most[2] > 25 {
			t.Errorf("%d containers, %d sandboxes, %d files at most over %d restarts", most[0], most[1], most[2], desired)
		}
		t.Logf("%d containers, %d sandboxes, %d files at most over %d restarts", most[0], most[1], most[2], desired)
	})
}

// Dead containers of a synced source's pods are removed from the first minute,
// though another source never delivers; containers that may belong to that
// source are kept.
func TestGarbageIsCollectedWhileASourceIsSilent(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.restartCap = time.Second
		b.fake.Behave("app", critest.Behaviour{RunFor: 10 * time.Millisecond, ExitCode: 1})
		web, db := testPod("web", "u1", "r1"), testPod("db", "u2", "r1")
		d := b.start(manifest.SourceFile, manifest.SourceHTTP)
		d.config.deliver(file, web)
		d.config.deliver(manifest.SourceHTTP, db)
		b.after(20 * time.Second)
		b.kill()
		// No source has delivered db to this daemon.
		count := func(uid string) (n int) {
			for _, c := range b.fake.Containers() {
				if c.UID == uid {
					n++
				}
			}
			return n
		}
		left := count("u2")
		if left == 0 {
			t.Fatal("db's containers were removed")
		}
		d = b.start(manifest.SourceFile, manifest.SourceHTTP)
		d.config.deliver(file, web)
		b.after(time.Minute)
		b.until(time.Minute, "web's dead containers are removed", func() bool { return count("u1") <= 3 })
		if n := count("u2"); n != left {
			t.Errorf("%d of %d containers of db are left while its source has not delivered", n, left)
		}
		entries, err := os.ReadDir(b.path("logs"))
		if err != nil || len(entries) != 2 {
			t.Errorf("logs of %d pods are left, want 2: %v", len(entries), err)
		}
		// A restored pod counts as desired.
		d.config.restore(manifest.SourceHTTP, db)
		b.after(time.Minute)
		b.until(time.Minute, "db's dead containers are removed", func() bool { return count("u2") <= 3 })
		if lines := d.logLines("ContainerGCFailed"); len(lines) > 0 {
			t.Error(strings.Join(lines, ""))
		}
	})
}

// When a disk is full, everything of a terminated pod is removed. Its final
// status stays, for the next daemon too, and it does not run again.
func TestReclaimLeavesTheStatusOfEndedPods(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("app", critest.Behaviour{RunFor: time.Second, ExitCode: 7})
		job := testPod("job", "u1", "r1")
		job.Spec.RestartPolicy = v1.RestartPolicyNever
		d := b.start()
		d.config.deliver(file, job)
		b.until(time.Minute, "it has failed", func() bool { return d.workers.State("u1") == podworkers.Finished })
		before := d.status("u1")
		b.after(time.Minute)
		if n, err := d.ReclaimContainers(t.Context()); err != nil || n != 2 {
			t.Errorf("%d removed, want a container and a sandbox: %v", n, err)
		}
		b.after(2 * time.Minute)
		if containers, sandboxes, _ := b.things(); containers+sandboxes != 0 {
			t.Errorf("%d containers, %d sandboxes are left", containers, sandboxes)
		}
		shows := func(st v1.PodStatus) {
			t.Helper()
			if st.Phase != v1.PodFailed || len(st.ContainerStatuses) != 1 {
				t.Fatalf("status is %+v", st)
			}
			was, now := before.ContainerStatuses[0], st.ContainerStatuses[0]
			if diff := cmp.Diff(was.State, now.State); diff != "" || now.ContainerID != was.ContainerID {
				t.Errorf("the container is %s: %s", now.ContainerID, diff)
			}
		}
		shows(d.status("u1"))
		d = b.restart(job)
		b.after(2 * time.Minute)
		shows(d.status("u1"))
		if containers, sandboxes, _ := b.things(); containers+sandboxes != 0 {
			t.Errorf("%d containers, %d sandboxes were created", containers, sandboxes)
		}
	})
}
