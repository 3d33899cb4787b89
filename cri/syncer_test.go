package cri_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

func TestSyncStartsAPod(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), func(t *testing.T, b *syncerHarness) {
		first := b.sync()
		if first.Err != nil || !first.Acted || len(first.Waiting) != 0 || first.RetryAfter != 0 {
			t.Fatalf("got %+v", first)
		}
		b.runs("a", "b") // one sync is enough
		if second := b.sync(); second.Acted || second.Err != nil {
			t.Errorf("a second sync acted: %+v", second)
		}
		a, _ := b.fake.Newest("a")
		if ip := string(a.Config.Envs[0].Value); ip == "" || ip != b.status.IPs[0] {
			t.Errorf("inputs were given address %q, want %q", ip, b.status.IPs[0])
		}
		log := filepath.Join(b.dir, "pods/default_web-node_uid-1/a/0.log")
		link := filepath.Join(b.dir, "containers", "web-node_default_a-"+a.ID+".log")
		if target, err := os.Readlink(link); err != nil || target != log {
			t.Errorf("link to %q, %v, want %q", target, err, log)
		}
		for _, want := range []string{"Pulled", "Created: Created container a", "Started: Started container b"} {
			if !b.events.has(want) {
				t.Errorf("no event %q in %q", want, b.events.list)
			}
		}
		if b.events.has("SandboxChanged") {
			t.Error("the first sandbox is reported as changed")
		}
		// Containers start in the order of the spec.
		var started []string
		for _, call := range b.fake.Writes() {
			if call.Method == "StartContainer" {
				started = append(started, call.Container)
			}
		}
		if !slices.Equal(started, []string{"a", "b"}) {
			t.Errorf("started %q", started)
		}
	})
}

func TestSyncRunsInitContainersInOrder(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}, "i", "j"), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.runs("i")
		b.fake.Exit("i", 1)
		b.settle() // the first restart is immediate
		b.runs("i")
		b.fake.Exit("i", 0)
		b.settle()
		b.runs("j")
		b.fake.Exit("j", 0)
		b.settle()
		b.runs("a")
		if c, _ := b.fake.Newest("i"); c.Config.Metadata.Attempt != 1 {
			t.Errorf("the second instance of i is number %d, want 1", c.Config.Metadata.Attempt)
		}

		// After a power loss the whole order runs again, in a new
		// sandbox.
		b.fake.Reboot()
		b.restart()
		for _, name := range []string{"i", "j"} {
			b.settle()
			b.runs(name)
			b.fake.Exit(name, 0)
		}
		b.settle()
		b.runs("a")
	})
}

// k/k#140309: a container was created, but not started, before a power loss.
func TestSyncAfterPowerLossBetweenCreateAndStart(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}, "i", "j"), func(t *testing.T, b *syncerHarness) {
		for _, name := range []string{"i", "j"} {
			b.settle()
			b.fake.Exit(name, 0)
		}
		b.fake.Inject("StartContainer", critest.Fault{Container: "a", Before: errors.New("power is lost")})
		b.sync()
		b.fake.Reboot()
		b.restart()
		for _, name := range []string{"i", "j"} {
			b.settle()
			b.runs(name)
			b.fake.Exit(name, 0)
		}
		b.settle()
		b.runs("a")
		b.fresh("a")
		if c, _ := b.fake.Newest("a"); c.Config.Metadata.Attempt != 0 {
			t.Errorf("a is number %d, want 0: it never ran before", c.Config.Metadata.Attempt)
		}
	})
}

func TestSyncRestartsWithBackoff(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.fake.Kill("a")
		if r := b.sync(); r.Err != nil || len(r.Waiting) != 0 {
			t.Fatalf("the first restart: %+v", r)
		}
		b.runs("a", "b")
		b.fake.Kill("a")
		r := b.sync()
		want := cri.Waiting{Reason: "CrashLoopBackOff",
			Message: "back-off 10s restarting failed container=a pod=web-node_default(uid-1)"}
		if r.Waiting["a"] != want || r.Err != nil || r.Acted {
			t.Fatalf("got %+v, want %+v", r, want)
		}
		if r.RetryAfter <= 9*time.Second || r.RetryAfter > 10*time.Second {
			t.Errorf("retry after %s, want 10s", r.RetryAfter)
		}
		if !b.events.has("BackOff: Back-off restarting failed container a in pod web-node_default(uid-1)") {
			t.Errorf("events %q", b.events.list)
		}
		b.fake.Kill("b") // the other one is not delayed
		b.sync()
		b.runs("b")
		if steps := b.syncer.Backoff().Steps("uid-1"); len(steps) != 2 {
			t.Errorf("steps %v, want those of a and b", steps)
		}
		// A restarted daemon keeps the back-off.
		steps := b.syncer.Backoff().Steps("uid-1")
		b.restart()
		b.syncer.Backoff().Restore("uid-1", steps)
		if r := b.sync(); r.Waiting["a"] != want {
			t.Errorf("after a restart: %+v", r)
		}
		b.settle()
		b.runs("a", "b")
		if a, _ := b.fake.Newest("a"); a.Config.Metadata.Attempt != 2 {
			t.Errorf("a is number %d, want 2", a.Config.Metadata.Attempt)
		}
	})
}

func TestSyncRestartCount(t *testing.T) {
	p := pod(v1.RestartPolicyAlways, []string{"a"})
	for name, tc := range map[string]struct {
		logs   []string
		record map[string]int
		want   uint32
	}{
		"no data":                {want: 0},
		"from the logs":          {logs: []string{"0.log", "4.log"}, want: 5},
		"from the record":        {record: map[string]int{"a": 7}, want: 7},
		"logs beyond the record": {logs: []string{"8.log"}, record: map[string]int{"a": 7}, want: 9},
		"record of another":      {record: map[string]int{"b": 7}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, p, func(t *testing.T, b *syncerHarness) {
				dir := filepath.Join(b.dir, "pods/default_web-node_uid-1/a")
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				for _, log := range tc.logs {
					if err := os.WriteFile(filepath.Join(dir, log), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				r := b.syncer.Sync(t.Context(),
					cri.SyncRequest{Pod: p, Status: &cri.PodStatus{UID: p.UID}, MinRestartCounts: tc.record})
				c, ok := b.fake.Newest("a")
				if r.Err != nil || !ok || c.Config.Metadata.Attempt != tc.want {
					t.Errorf("number %d, %v, want %d", c.Config.GetMetadata().GetAttempt(), r.Err, tc.want)
				}
			})
		})
	}
}

func TestSyncReplacesADeadSandbox(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.fake.KillSandboxes("web-node") // its container keeps running
		b.settle()
		b.runs("a")
		if !b.events.has("SandboxChanged") {
			t.Errorf("events %q", b.events.list)
		}
		newest := b.fake.Sandboxes()[1]
		if newest.Attempt != 1 || !newest.Ready {
			t.Errorf("got %+v", newest)
		}
	})
}

func TestSyncEndsACompletedPod(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyNever, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.fake.Exit("a", 3)
		b.settle()
		if b.fake.Running() != 0 || b.fake.Ready() != 0 {
			t.Errorf("something still runs\n%s", b.fake.Dump())
		}
		b.fresh("a")
	})
}

func TestSyncHostNetwork(t *testing.T) {
	p := pod(v1.RestartPolicyAlways, []string{"a"})
	p.Spec.HostNetwork = true
	withTestbed(t, p, func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.runs("a")
		s := b.fake.Sandboxes()
		if len(s) != 1 || s[0].Config.Hostname != "" || len(s[0].IPs) != 0 {
			t.Errorf("got %+v", s)
		}
		// The pod gets a network namespace of its own: everything is
		// started again.
		p.Spec.HostNetwork = false
		b.settle()
		b.runs("a")
		if s = b.fake.Sandboxes(); len(s) != 2 || s[1].Attempt != 1 || len(s[1].IPs) == 0 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestSyncChangedImageRestartsThatContainer(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyNever, []string{"a", "b"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.pod.Spec.Containers[0].Image = "registry.example/a:2"
		b.settle()
		b.runs("a", "b")
		b.fresh("b")
		if a, _ := b.fake.Newest("a"); a.Config.Image.UserSpecifiedImage != "registry.example/a:2" ||
			a.Config.Metadata.Attempt != 1 {
			t.Errorf("got %v", a.Config)
		}
		if !b.events.has("Killing: Container a definition changed, will be restarted") {
			t.Errorf("events %q", b.events.list)
		}
	})
}

func TestSyncKillsWhatFailedItsProbe(t *testing.T) {
	p := pod(v1.RestartPolicyAlways, []string{"a", "b"})
	grace := int64(5)
	p.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: &grace}
	withTestbed(t, p, func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.fake.Behave("a", critest.Behaviour{IgnoreTerm: true})
		a, _ := b.fake.Newest("a")
		status := b.observe()
		begun := time.Now()
		r := b.syncer.Sync(t.Context(), cri.SyncRequest{
			Pod: p, Status: status, ResolveInputs: b.inputs, FailedProbes: map[string]cri.KillReason{a.ID: cri.KillLiveness},
		})
		if took := time.Since(begun); r.Err != nil || took < 5*time.Second || took > 6*time.Second {
			t.Errorf("took %s, %v, want the probe's grace of 5 s", took, r.Err)
		}
		b.runs("a", "b")
		b.fresh("b")
	})
}

func TestSyncPullsInParallel(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), func(t *testing.T, b *syncerHarness) {
		b.fake.SetImages()
		hold := b.fake.HoldPull("*")
		done := make(chan cri.SyncResult, 1)
		go func() { done <- b.sync() }()
		synctest.Wait()
		if b.fake.Pulling("registry.example/a:1") != 1 || b.fake.Pulling("registry.example/b:1") != 1 {
			t.Error("the images are not pulled in parallel")
		}
		hold.Release()
		if r := <-done; r.Err != nil {
			t.Fatal(r.Err)
		}
		b.runs("a", "b")
	})
}

func TestSyncStopsWithItsContext(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.fake.SetImages()
		b.fake.HoldPull("*")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan cri.SyncResult, 1)
		go func() {
			done <- b.syncer.Sync(ctx, cri.SyncRequest{Pod: b.pod, Status: &cri.PodStatus{UID: b.pod.UID},
				ResolveInputs: b.inputs})
		}()
		synctest.Wait()
		cancel()
		r := <-done
		if !errors.Is(r.Err, context.Canceled) || len(r.Waiting) != 0 {
			t.Errorf("got %+v", r)
		}
		synctest.Wait()
		if b.fake.Pulling("registry.example/a:1") != 0 || b.events.has("Failed") {
			t.Errorf("the pull continues, or is reported as a failure: %q", b.events.list)
		}
	})
}

func TestSyncKillsSurplus(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		a, _ := b.fake.Newest("a")
		config := &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "z"}, Image: a.Config.Image,
			Labels: map[string]string{
				cri.LabelPodUID: "uid-1", cri.LabelInstance: critest.Instance, cri.LabelContainerName: "z",
				cri.LabelPodName: "web-node", cri.LabelPodNamespace: "default",
			},
		}
		id, err := b.client.CreateContainer(t.Context(), a.SandboxID, config, b.fake.Sandboxes()[0].Config)
		if err == nil {
			err = b.client.StartContainer(t.Context(), id)
		}
		if err != nil {
			t.Fatal(err)
		}
		b.settle()
		b.runs("a")
		b.fresh("a")
	})
}

func TestSyncGrace(t *testing.T) {
	one, five, zero := int64(1), int64(5), int64(0)
	for name, tc := range map[string]struct {
		spec, deletion *int64
		want           time.Duration
	}{
		"the spec's":      {&five, nil, 5 * time.Second},
		"the deletion's":  {&five, &one, 2 * time.Second},
		"none":            {nil, nil, 2 * time.Second},
		"zero: still 2 s": {&zero, nil, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod(v1.RestartPolicyAlways, []string{"a"})
			p.Spec.TerminationGracePeriodSeconds, p.DeletionGracePeriodSeconds = tc.spec, tc.deletion
			withTestbed(t, p, func(t *testing.T, b *syncerHarness) {
				b.settle()
				b.fake.Behave("a", critest.Behaviour{IgnoreTerm: true})
				b.pod.Spec.Containers[0].Image = "registry.example/a:2"
				begun := time.Now()
				b.sync()
				if took := time.Since(begun); took < tc.want || took > tc.want+time.Second {
					t.Errorf("took %s, want %s", took, tc.want)
				}
			})
		})
	}
}

func TestSyncKillsUnknownStateFirst(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.fake.Lose("a")
		b.settle()
		b.runs("a")
		var calls []string
		for _, c := range b.fake.Writes() {
			if c.Container == "a" {
				calls = append(calls, c.Method)
			}
		}
		if want := []string{"CreateContainer", "StartContainer", "StopContainer", "CreateContainer",
			"StartContainer"}; !slices.Equal(calls, want) {
			t.Errorf("calls %q, want %q", calls, want)
		}
	})
}

func TestSyncPrunesInitHistoryWithItsFiles(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}, "i"), func(t *testing.T, b *syncerHarness) {
		b.fake.Behave("i", critest.Behaviour{RunFor: time.Second, ExitCode: 1})
		for range 6 {
			b.sync()
			time.Sleep(5 * time.Minute)
		}
		b.sync()
		var instances int
		for _, c := range b.fake.Containers() {
			if c.Name == "i" {
				instances++
			}
		}
		logs, err := os.ReadDir(filepath.Join(b.dir, "pods/default_web-node_uid-1/i"))
		links, linksErr := os.ReadDir(filepath.Join(b.dir, "containers"))
		if err != nil || linksErr != nil {
			t.Fatal(err, linksErr)
		}
		if instances > 2 || len(logs) > 2 || len(links) > 2 {
			t.Errorf("%d instances, logs %v, links %v: the history was not removed", instances, logs, links)
		}
		if n := b.fake.Starts("uid-1", "i"); n < 5 {
			t.Errorf("%d starts", n)
		}
	})
}

func TestForget(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.fake.Kill("a")
		b.settle()
		b.syncer.Forget("uid-1")
		b.fake.Kill("a")
		if r := b.sync(); r.RetryAfter != 0 || len(r.Waiting) != 0 {
			t.Errorf("got %+v, want a restart at once", r)
		}
	})
}

func TestPodsAreSyncedConcurrently(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.fake.SetImages()
		var all sync.WaitGroup
		for i := range 50 {
			p := b.pod.DeepCopy()
			p.Name, p.UID = fmt.Sprintf("web-%d", i), types.UID(fmt.Sprint(i))
			all.Go(func() {
				r := b.syncer.Sync(t.Context(),
					cri.SyncRequest{Pod: p, Status: &cri.PodStatus{UID: p.UID}, ResolveInputs: b.inputs})
				if r.Err != nil {
					t.Error(r.Err)
				}
			})
		}
		all.Wait()
		if n := b.fake.Running(); n != 50 {
			t.Errorf("%d run, want 50", n)
		}
		if n := b.fake.Calls("PullImage"); n < 1 || n > 50 {
			t.Errorf("%d pulls of one image", n)
		}
	})
}
