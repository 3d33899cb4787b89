package cri_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

// bed is a Syncer over a fake runtime, and one pod.
type bed struct {
	t      *testing.T
	fake   *critest.Fake
	client *cri.Client
	syncer *cri.Syncer
	events *recorder
	pod    *v1.Pod
	dir    string
	// forgetful restarts the daemon before each sync.
	forgetful bool

	status  *cri.PodStatus // of the last sync
	results []cri.SyncResult
}

// recorder keeps the reasons and messages of events.
type recorder struct {
	mu   sync.Mutex
	list []string
}

func (r *recorder) Event(_ *v1.Pod, _, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, reason+": "+message)
}

func (r *recorder) has(prefix string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.list, func(e string) bool { return strings.HasPrefix(e, prefix) })
}

// inBed runs a test in a synctest bubble.
func inBed(t *testing.T, pod *v1.Pod, test func(t *testing.T, b *bed)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, fake: critest.New(t), events: &recorder{}, pod: pod, dir: dir}
		b.fake.WriteLogs()
		b.restart()
		test(t, b)
		b.fake.Check(t)
	})
}

// restart is a daemon that begins with nothing remembered.
func (b *bed) restart() {
	if b.client != nil {
		_ = b.client.Close()
	}
	b.client = b.fake.Client(b.t)
	b.syncer = cri.NewSyncer(cri.SyncerConfig{
		Runtime: b.client, Images: b.client, Events: b.events, Instance: critest.Instance,
		LogRoot: filepath.Join(b.dir, "pods"), LogLinks: filepath.Join(b.dir, "containers"), HostMemory: 1 << 30,
	})
}

func pod(policy v1.RestartPolicy, regular []string, init ...string) *v1.Pod {
	grace := int64(30)
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-node", Namespace: "default", UID: "uid-1"}}
	p.Spec.RestartPolicy = policy
	p.Spec.TerminationGracePeriodSeconds = &grace
	container := func(name string) v1.Container {
		return v1.Container{Name: name, Image: "registry.example/" + name + ":1", ImagePullPolicy: v1.PullIfNotPresent}
	}
	for _, name := range regular {
		p.Spec.Containers = append(p.Spec.Containers, container(name))
	}
	for _, name := range init {
		p.Spec.InitContainers = append(p.Spec.InitContainers, container(name))
	}
	return p
}

// sync looks and syncs once.
func (b *bed) sync() cri.SyncResult {
	b.t.Helper()
	if b.forgetful {
		steps := b.syncer.Backoff().Steps(b.pod.UID)
		b.restart()
		b.syncer.Backoff().Restore(b.pod.UID, steps)
	}
	status, err := b.client.PodStatus(b.t.Context(), b.pod.UID)
	if err != nil {
		b.results = append(b.results, cri.SyncResult{Err: err})
		return b.results[len(b.results)-1]
	}
	b.status = status
	b.results = append(b.results, b.syncer.Sync(b.t.Context(), cri.SyncRequest{Pod: b.pod, Status: status, Inputs: b.inputs}))
	return b.results[len(b.results)-1]
}

// look is the pod's status now.
func (b *bed) look() *cri.PodStatus {
	b.t.Helper()
	status, err := b.client.PodStatus(b.t.Context(), b.pod.UID)
	if err != nil {
		b.t.Fatal(err)
	}
	return status
}

func (b *bed) inputs(_ context.Context, c *v1.Container, ips []string) (cri.Inputs, error) {
	return cri.Inputs{Env: []cri.EnvVar{{Name: "IPS", Value: strings.Join(ips, ",")}}}, nil
}

// settle syncs until there is nothing left to do, waiting as a worker does.
func (b *bed) settle() cri.SyncResult {
	b.t.Helper()
	for range 100 {
		r := b.sync()
		switch {
		case r.Err != nil:
			time.Sleep(10 * time.Second)
		case r.RetryAfter > 0:
			time.Sleep(r.RetryAfter)
		case !r.Acted:
			synctest.Wait()
			return r
		}
	}
	b.t.Fatalf("does not settle: %+v\n%s", b.results[len(b.results)-1], b.fake.Dump())
	return cri.SyncResult{}
}

// runs asserts that exactly these containers run, in one ready sandbox.
func (b *bed) runs(names ...string) {
	b.t.Helper()
	var running []string
	for _, c := range b.fake.Containers() {
		if c.Running() {
			running = append(running, c.Name)
		}
	}
	slices.Sort(running)
	if !slices.Equal(running, names) {
		b.t.Errorf("running: %q, want %q\n%s", running, names, b.fake.Dump())
	}
	if b.fake.Ready() != 1 {
		b.t.Errorf("%d sandboxes are ready, want 1\n%s", b.fake.Ready(), b.fake.Dump())
	}
}

// fresh asserts that nothing was started more than once.
func (b *bed) fresh(names ...string) {
	b.t.Helper()
	for _, name := range names {
		if n := b.fake.Starts(string(b.pod.UID), name); n != 1 {
			b.t.Errorf("%s was started %d times, want once", name, n)
		}
	}
}

func TestSyncStartsAPod(t *testing.T) {
	inBed(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), func(t *testing.T, b *bed) {
		first := b.sync()
		if first.Err != nil || !first.Acted || len(first.Waiting) != 0 || first.RetryAfter != 0 {
			t.Fatalf("got %+v", first)
		}
		b.runs("a", "b") // one Sync is enough
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
			t.Error("a first sandbox is no changed one")
		}
		// The order is the spec's.
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
	inBed(t, pod(v1.RestartPolicyAlways, []string{"a"}, "i", "j"), func(t *testing.T, b *bed) {
		b.settle()
		b.runs("i")
		b.fake.Exit("i", 1)
		b.settle() // the first restart comes at once
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

		// A power loss: the whole order again, in a new sandbox.
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

// k/k#140309: a container created, but not started, before a power loss.
func TestSyncAfterPowerLossBetweenCreateAndStart(t *testing.T) {
	inBed(t, pod(v1.RestartPolicyAlways, []string{"a"}, "i", "j"), func(t *testing.T, b *bed) {
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
	inBed(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), func(t *testing.T, b *bed) {
		b.settle()
		b.fake.Kill("a")
		if r := b.sync(); r.Err != nil || len(r.Waiting) != 0 {
			t.Fatalf("the first restart: %+v", r)
		}
		b.runs("a", "b")
		b.fake.Kill("a")
		r := b.sync()
		want := cri.Waiting{Reason: "CrashLoopBackOff", Message: "back-off 10s restarting failed container=a pod=web-node_default(uid-1)"}
		if r.Waiting["a"] != want || r.Err != nil || r.Acted {
			t.Fatalf("got %+v, want %+v", r, want)
		}
		if r.RetryAfter <= 9*time.Second || r.RetryAfter > 10*time.Second {
			t.Errorf("retry after %s, want 10s", r.RetryAfter)
		}
		if !b.events.has("BackOff: Back-off restarting failed container a in pod web-node_default(uid-1)") {
			t.Errorf("events %q", b.events.list)
		}
		b.fake.Kill("b") // the other one is not held back
		b.sync()
		b.runs("b")
		if steps := b.syncer.Backoff().Steps("uid-1"); len(steps) != 2 {
			t.Errorf("steps %v, want those of a and b", steps)
		}
		// A daemon that restarts keeps to it.
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
		"nothing is known":         {want: 0},
		"the logs tell":            {logs: []string{"0.log", "4.log"}, want: 5},
		"the record tells":         {record: map[string]int{"a": 7}, want: 7},
		"the logs tell of more":    {logs: []string{"8.log"}, record: map[string]int{"a": 7}, want: 9},
		"the record is of another": {record: map[string]int{"b": 7}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, p, func(t *testing.T, b *bed) {
				dir := filepath.Join(b.dir, "pods/default_web-node_uid-1/a")
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				for _, log := range tc.logs {
					if err := os.WriteFile(filepath.Join(dir, log), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				r := b.syncer.Sync(t.Context(), cri.SyncRequest{Pod: p, Status: &cri.PodStatus{UID: p.UID}, RestartCounts: tc.record})
				c, ok := b.fake.Newest("a")
				if r.Err != nil || !ok || c.Config.Metadata.Attempt != tc.want {
					t.Errorf("number %d, %v, want %d", c.Config.GetMetadata().GetAttempt(), r.Err, tc.want)
				}
			})
		})
	}
}

func TestSyncReplacesADeadSandbox(t *testing.T) {
	inBed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *bed) {
		b.settle()
		b.fake.KillSandboxes("web-node") // its container runs on
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
	inBed(t, pod(v1.RestartPolicyNever, []string{"a"}), func(t *testing.T, b *bed) {
		b.settle()
		b.fake.Exit("a", 3)
		b.settle()
		if b.fake.Running() != 0 || b.fake.Ready() != 0 {
			t.Errorf("something goes on\n%s", b.fake.Dump())
		}
		b.fresh("a")
	})
}

func TestSyncHostNetwork(t *testing.T) {
	p := pod(v1.RestartPolicyAlways, []string{"a"})
	p.Spec.HostNetwork = true
	inBed(t, p, func(t *testing.T, b *bed) {
		b.settle()
		b.runs("a")
		s := b.fake.Sandboxes()
		if len(s) != 1 || s[0].Config.Hostname != "" || len(s[0].IPs) != 0 {
			t.Errorf("got %+v", s)
		}
		// The pod gets a network of its own: everything anew.
		p.Spec.HostNetwork = false
		b.settle()
		b.runs("a")
		if s = b.fake.Sandboxes(); len(s) != 2 || s[1].Attempt != 1 || len(s[1].IPs) == 0 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestSyncChangedImageRestartsThatContainer(t *testing.T) {
	inBed(t, pod(v1.RestartPolicyNever, []string{"a", "b"}), func(t *testing.T, b *bed) {
		b.settle()
		b.pod.Spec.Containers[0].Image = "registry.example/a:2"
		b.settle()
		b.runs("a", "b")
		b.fresh("b")
		if a, _ := b.fake.Newest("a"); a.Config.Image.UserSpecifiedImage != "registry.example/a:2" || a.Config.Metadata.Attempt != 1 {
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
	inBed(t, p, func(t *testing.T, b *bed) {
		b.settle()
		b.fake.Behave("a", critest.Behaviour{IgnoreTerm: true})
		a, _ := b.fake.Newest("a")
		status := b.look()
		begun := time.Now()
		r := b.syncer.Sync(t.Context(), cri.SyncRequest{
			Pod: p, Status: status, Inputs: b.inputs, Failed: map[string]cri.KillReason{a.ID: cri.KillLiveness},
		})
		if took := time.Since(begun); r.Err != nil || took < 5*time.Second || took > 6*time.Second {
			t.Errorf("took %s, %v, want the probe's grace of 5 s", took, r.Err)
		}
		b.runs("a", "b")
		b.fresh("b")
	})
}

func TestSyncTellsWhatFailed(t *testing.T) {
	always := v1.RestartPolicyAlways
	for name, tc := range map[string]struct {
		method string
		fault  critest.Fault
		setup  func(b *bed)
		key    string
		reason string
		text   string
		event  string
	}{
		"sandbox": {
			method: "RunPodSandbox", fault: critest.Fault{Before: errors.New("no CNI")},
			reason: "CreatePodSandboxError", text: "no CNI", event: "FailedCreatePodSandBox: Failed to create pod sandbox",
		},
		"create": {
			method: "CreateContainer", fault: critest.Fault{Before: errors.New("no space")},
			key: "a", reason: "CreateContainerError", text: "no space", event: "Failed: Cannot create container a",
		},
		"start": {
			setup: func(b *bed) { b.fake.Behave("a", critest.Behaviour{StartError: "no such command"}) },
			key:   "a", reason: "RunContainerError", text: "no such command", event: "Failed: Cannot start container a",
		},
		"pull": {
			setup: func(b *bed) { b.fake.SetImages("registry.example/b:1"); b.fake.SetPullable() },
			key:   "a", reason: "ErrImagePull", text: "not found", event: `Failed: Failed to pull image "registry.example/a:1"`,
		},
		"inspect": {
			method: "ImageStatus", fault: critest.Fault{Image: "registry.example/a:1", Before: errors.New("broken store")},
			key: "a", reason: "ImageInspectError", text: "broken store", event: "InspectFailed",
		},
		"never pull": {
			setup: func(b *bed) {
				b.fake.SetImages("registry.example/b:1")
				b.pod.Spec.Containers[0].ImagePullPolicy = v1.PullNever
			},
			key: "a", reason: "ErrImageNeverPull", text: "not present", event: "ErrImageNeverPull",
		},
		"image name": {
			setup: func(b *bed) { b.pod.Spec.Containers[0].Image = "registry.example/A:1" },
			key:   "a", reason: "InvalidImageName", text: "not a valid reference", event: "InspectFailed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, pod(always, []string{"a", "b"}), func(t *testing.T, b *bed) {
				if tc.setup != nil {
					tc.setup(b)
				}
				if tc.method != "" {
					b.fake.Inject(tc.method, tc.fault)
				}
				r := b.sync()
				w := r.Waiting[tc.key]
				if r.Err == nil || w.Reason != tc.reason || !strings.Contains(w.Message, tc.text) || len(r.Waiting) != 1 {
					t.Errorf("got %+v", r)
				}
				if strings.Contains(w.Message, "rpc error") {
					t.Errorf("message %q speaks of gRPC", w.Message)
				}
				if !b.events.has(tc.event) {
					t.Errorf("no event %q in %q", tc.event, b.events.list)
				}
				if tc.key != "" {
					b.runs("b") // the others start all the same
				}
			})
		})
	}
}

func TestSyncInputsFail(t *testing.T) {
	inBed(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), func(t *testing.T, b *bed) {
		r := b.syncer.Sync(t.Context(), cri.SyncRequest{Pod: b.pod, Status: &cri.PodStatus{UID: b.pod.UID},
			Inputs: func(_ context.Context, c *v1.Container, _ []string) (cri.Inputs, error) {
				if c.Name == "a" {
					return cri.Inputs{}, errors.New("the pod has no volume \"x\"")
				}
				return cri.Inputs{}, nil
			}})
		if w := r.Waiting["a"]; w.Reason != "CreateContainerConfigError" || w.Message != "the pod has no volume \"x\"" || r.Err == nil {
			t.Errorf("got %+v", r)
		}
		b.runs("b")
	})
}

func TestSyncPullsSideBySide(t *testing.T) {
	inBed(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), func(t *testing.T, b *bed) {
		b.fake.SetImages()
		hold := b.fake.HoldPull("*")
		done := make(chan cri.SyncResult, 1)
		go func() { done <- b.sync() }()
		synctest.Wait()
		if b.fake.Pulling("registry.example/a:1") != 1 || b.fake.Pulling("registry.example/b:1") != 1 {
			t.Error("the images are not pulled side by side")
		}
		hold.Release()
		if r := <-done; r.Err != nil {
			t.Fatal(r.Err)
		}
		b.runs("a", "b")
	})
}

func TestSyncGivesUpWhenToldTo(t *testing.T) {
	inBed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *bed) {
		b.fake.SetImages()
		b.fake.HoldPull("*")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan cri.SyncResult, 1)
		go func() {
			done <- b.syncer.Sync(ctx, cri.SyncRequest{Pod: b.pod, Status: &cri.PodStatus{UID: b.pod.UID}, Inputs: b.inputs})
		}()
		synctest.Wait()
		cancel()
		r := <-done
		if !errors.Is(r.Err, context.Canceled) || len(r.Waiting) != 0 {
			t.Errorf("got %+v", r)
		}
		synctest.Wait()
		if b.fake.Pulling("registry.example/a:1") != 0 || b.events.has("Failed") {
			t.Errorf("the pull goes on, or is called a failure: %q", b.events.list)
		}
	})
}

func TestSyncEndsSurplus(t *testing.T) {
	inBed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *bed) {
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
		"the spec's":           {&five, nil, 5 * time.Second},
		"the deletion's":       {&five, &one, 2 * time.Second},
		"none":                 {nil, nil, 2 * time.Second},
		"zero is still at 2 s": {&zero, nil, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod(v1.RestartPolicyAlways, []string{"a"})
			p.Spec.TerminationGracePeriodSeconds, p.DeletionGracePeriodSeconds = tc.spec, tc.deletion
			inBed(t, p, func(t *testing.T, b *bed) {
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

func TestSyncUnknownStateIsEndedFirst(t *testing.T) {
	inBed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *bed) {
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
		if want := []string{"CreateContainer", "StartContainer", "StopContainer", "CreateContainer", "StartContainer"}; !slices.Equal(calls, want) {
			t.Errorf("calls %q, want %q", calls, want)
		}
	})
}

func TestSyncPrunesInitHistoryWithItsFiles(t *testing.T) {
	inBed(t, pod(v1.RestartPolicyAlways, []string{"a"}, "i"), func(t *testing.T, b *bed) {
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
			t.Errorf("%d instances, logs %v, links %v: history is kept", instances, logs, links)
		}
		if n := b.fake.Starts("uid-1", "i"); n < 5 {
			t.Errorf("%d starts", n)
		}
	})
}

func TestForget(t *testing.T) {
	inBed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *bed) {
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

func TestPodsAreSyncedAtTheSameTime(t *testing.T) {
	inBed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *bed) {
		b.fake.SetImages()
		var all sync.WaitGroup
		for i := range 50 {
			p := b.pod.DeepCopy()
			p.Name, p.UID = fmt.Sprintf("web-%d", i), types.UID(fmt.Sprint(i))
			all.Go(func() {
				r := b.syncer.Sync(t.Context(), cri.SyncRequest{Pod: p, Status: &cri.PodStatus{UID: p.UID}, Inputs: b.inputs})
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
