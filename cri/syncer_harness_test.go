package cri_test

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

// syncerHarness is a Syncer over a fake runtime, with one pod.
type syncerHarness struct {
	t      *testing.T
	fake   *critest.Fake
	client *cri.Client
	syncer *cri.Syncer
	events *recorder
	hooks  *hooks
	pod    *v1.Pod
	dir    string
	// handler is the runtime handler of new sandboxes.
	handler string
	// forgetful restarts the daemon before each sync.
	forgetful bool

	status  *cri.PodStatus // passed to the last sync
	results []cri.SyncResult
	// postStart is the daemon's in-memory state of hooks.
	postStart map[string]string
}

// recorder records the reasons and messages of events.
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

// withTestbed runs a test in a synctest bubble.
func withTestbed(t *testing.T, pod *v1.Pod, test func(t *testing.T, b *syncerHarness)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := &syncerHarness{t: t, fake: critest.New(t), events: &recorder{}, hooks: &hooks{}, pod: pod, dir: dir}
		b.fake.WriteLogs()
		b.restart()
		test(t, b)
		b.fake.Check(t)
	})
}

// restart replaces the daemon with one that has no in-memory state.
func (b *syncerHarness) restart() {
	if b.client != nil {
		_ = b.client.Close()
	}
	b.client = b.fake.Client(b.t)
	b.syncer = cri.NewSyncer(cri.SyncerConfig{
		Runtime: b.client, Images: cri.ImageConfig{Runtime: b.client}, Events: b.events, Hooks: b.hooks,
		Instance: critest.Instance,
		LogRoot:  filepath.Join(b.dir, "pods"), LogLinks: filepath.Join(b.dir, "containers"), HostMemory: 1 << 30,
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

// sync observes and syncs once.
func (b *syncerHarness) sync() cri.SyncResult {
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
	b.results = append(b.results, b.syncIn(b.t.Context()))
	return b.results[len(b.results)-1]
}

// syncIn syncs once with the last status.
func (b *syncerHarness) syncIn(ctx context.Context) cri.SyncResult {
	r := b.syncer.Sync(ctx, cri.SyncRequest{
		Pod: b.pod, Status: b.status, ResolveInputs: b.inputs, PostStartDone: b.postStart, HostIP: "192.0.2.1",
		Sandbox: cri.SandboxInputs{RuntimeHandler: b.handler},
	})
	if b.postStart == nil {
		b.postStart = map[string]string{}
	}
	maps.Copy(b.postStart, r.PostStartDone)
	return r
}

// observe returns the pod's current status.
func (b *syncerHarness) observe() *cri.PodStatus {
	b.t.Helper()
	status, err := b.client.PodStatus(b.t.Context(), b.pod.UID)
	if err != nil {
		b.t.Fatal(err)
	}
	return status
}

func (b *syncerHarness) inputs(_ context.Context, c *v1.Container, ips []string) (cri.Inputs, error) {
	return cri.Inputs{Env: []cri.EnvVar{{Name: "IPS", Value: strings.Join(ips, ",")}}}, nil
}

// settle syncs until there is nothing left to do, waiting as a worker does.
func (b *syncerHarness) settle() cri.SyncResult {
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
func (b *syncerHarness) runs(names ...string) {
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
func (b *syncerHarness) fresh(names ...string) {
	b.t.Helper()
	for _, name := range names {
		if n := b.fake.Starts(string(b.pod.UID), name); n != 1 {
			b.t.Errorf("%s was started %d times, want once", name, n)
		}
	}
}
