package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wallclock"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/probe"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/event"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/noderesources/assigned"
	"github.com/podstead/podstead/supervisor/noderesources/cgroups"
	"github.com/podstead/podstead/supervisor/noderesources/claims"
	"github.com/podstead/podstead/supervisor/noderesources/devices"
	"github.com/podstead/podstead/supervisor/noderesources/hostports"
	"github.com/podstead/podstead/supervisor/noderesources/noderesourcestest"
	"github.com/podstead/podstead/supervisor/pleg"
	"github.com/podstead/podstead/supervisor/podephemeral"
	"github.com/podstead/podstead/supervisor/podprobes"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/rollout"
	"github.com/podstead/podstead/supervisor/status"
)

// supervisorHarness is a fake runtime, a root directory, and daemons that start
// and stop: the real packages from the sync loop down to the CRI client.
type supervisorHarness struct {
	t       testing.TB
	fake    *critest.Fake
	dir     string
	generic bool
	// sources modifies the Sources of the next daemon; may be nil.
	sources func(*Sources)
	// node is the node that the next daemon admits pods with.
	node admit.Node
	// restartCap bounds the crash-loop back-off; 0 is the default.
	restartCap time.Duration
	// network is the node's network as the next daemon's pods see it.
	network Network
	// cgroups are those of the next daemon; nil leaves cgroups to the
	// runtime.
	cgroups cgroups.Manager
	// exclusive assigns exclusive CPUs for the next daemon; nil assigns none.
	exclusive assigned.Manager
	// devices are those of the next daemon; nil has none.
	devices devices.Manager
	// claims are the resource claims of the next daemon; nil has none.
	claims claims.Manager
	// hostRules make the rules of the host for host ports.
	hostRules []func(context.Context)
	// gates and returns are those of the next daemon.
	gates   []Gate
	returns map[string]RestartPolicy
	// allocatable is what the next daemon can allocate to pods; nil means
	// no limits.
	allocatable v1.ResourceList
	// mark is the next daemon's time since the boot; nil means unknown.
	mark func() (wallclock.Mark, bool)
	// metrics are those of the next daemon; may be nil.
	metrics Metrics
	// taints are registered with the next daemon; may be nil.
	taints func() []v1.Taint
	// onSync is called before each sync; may be nil.
	onSync func(podworkers.SyncJob)
	// noRollouts starts the next daemon without rollouts, so that updates come into effect
	// at once.
	noRollouts bool
	// rollback is the node's default of podstead.io/rollback-after.
	rollback time.Duration
	daemon   *daemon
}

// daemon is one run of the supervisor with its dependencies.
type daemon struct {
	*Supervisor
	config   *fakeConfig
	rollouts *rollout.Controller
	statuses *status.Store
	events   *event.Recorder
	pleg     *pleg.PLEG
	log      *logText
	// ran counts the syncs.
	ran  atomic.Int64
	stop func()
}

type countingSyncer struct {
	syncer
	ran *atomic.Int64
	on  func(podworkers.SyncJob)
}

func (c countingSyncer) Sync(ctx context.Context, j podworkers.SyncJob, r *runState) podworkers.SyncResult {
	c.ran.Add(1)
	if c.on != nil {
		c.on(j)
	}
	return c.syncer.Sync(ctx, j, r)
}

// withTestbed runs a test in a bubble, once with the runtime's event stream and
// once without.
func withTestbed(t *testing.T, f func(t *testing.T, b *supervisorHarness)) {
	t.Helper()
	for _, kind := range []string{"evented", "generic"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newSupervisorHarness(t, kind == "generic")
				defer b.kill()
				f(t, b)
				b.fake.Check(t)
			})
		})
	}
}

// seeds returns the number of seeds for a random test.
func seeds(n uint64) uint64 {
	if underRace {
		return n / 6
	}
	return n
}

func newSupervisorHarness(t testing.TB, generic bool) *supervisorHarness {
	b := &supervisorHarness{t: t, fake: critest.New(t), dir: t.TempDir(), generic: generic}
	b.fake.SetEvents(!generic)
	b.fake.WriteLogs()
	return b
}

// start starts a daemon; the sources of its config have not delivered.
func (b *supervisorHarness) start(sources ...manifest.Source) *daemon {
	b.t.Helper()
	if len(sources) == 0 {
		sources = []manifest.Source{manifest.SourceFile}
	}
	client, err := cri.Dial(b.fake.Options())
	if err != nil {
		b.t.Fatal(err)
	}
	text := &logText{}
	log := slog.New(slog.NewTextHandler(text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	records, err := status.OpenRecords(filepath.Join(b.dir, "records"), statefile.Disk{}, log)
	if err != nil {
		b.t.Fatal(err)
	}
	ephemeral, err := podephemeral.Open(b.path("ephemeral-containers"), statefile.Disk{}, log)
	if err != nil {
		b.t.Fatal(err)
	}
	d := &daemon{
		config:   newFakeConfig(sources...),
		statuses: status.NewStore(),
		events:   event.New(event.Config{Log: log}),
		pleg:     pleg.New(pleg.Config{Runtime: client, Log: log, Generic: b.generic}),
		log:      text,
	}
	criSyncer := cri.NewSyncer(cri.SyncerConfig{
		Runtime: client, Images: cri.ImageConfig{Runtime: client}, Events: d.events, Log: log, Instance: critest.Instance,
		Backoff: cri.NewBackoff(b.restartCap, b.boot()),
		LogRoot: b.path("logs"), LogLinks: b.path("links"),
		Hooks: fakeHooks{probe.NewHooks(probe.Config{Exec: fakeExec{client}})},
	})
	prober := probe.New(probe.Config{Exec: fakeExec{client}, Events: d.events})
	d.rollouts = rollout.New(rollout.Options{
		Pods: d.config, Dir: b.path("rollouts"), RollbackAfter: b.rollback, Events: d.events, LastEvent: d.events.Last,
		Mark: b.mark, Log: log,
		Started: func(uid types.UID) bool {
			_, err := os.Lstat(filepath.Join(b.dir, "pods", string(uid)))
			return err == nil
		},
	})
	src := Sources{Pods: d.rollouts, Rollouts: d.rollouts, Probes: prober}
	if b.noRollouts {
		src.Pods, src.Rollouts = d.config, nil
	}
	if b.sources != nil {
		b.sources(&src)
	}
	d.Supervisor, err = newSupervisor(Config{
		Sources:     src,
		Runtime:     Runtime{Observer: d.pleg, Syncer: criSyncer, Backoff: criSyncer.Backoff(), Health: client},
		Store:       Store{Statuses: savedFirst{d.statuses, records, b.t, d}, Records: records, Ephemeral: ephemeral},
		Paths:       Paths{Root: b.dir, PodLogs: b.path("logs"), ContainerLogs: b.path("links")},
		Events:      d.events,
		Log:         log,
		Network:     b.network,
		Node:        b.node,
		Metrics:     b.metrics,
		Mark:        b.mark,
		Allocatable: b.allocatable,
		Resources: func(own *OwnResources) []noderesources.Resource {
			list := b.nodeResources(own, d)
			for _, r := range list {
				if err := noderesourcestest.CheckMethods(r); err != nil {
					b.t.Error(err)
				}
			}
			return list
		},
	}, func(s syncer) syncer { return countingSyncer{s, &d.ran, b.onSync} })
	if err != nil {
		b.t.Fatal(err)
	}
	for _, gate := range b.gates {
		d.AddGate(gate)
	}
	for reason, policy := range b.returns {
		d.SetRestartPolicy(reason, policy)
	}
	if b.taints != nil {
		d.SetTaints(b.taints)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = d.pleg.Run(ctx) })
	wg.Go(func() { _ = prober.Run(ctx) })
	wg.Go(func() { _ = d.Run(ctx) })
	if !b.noRollouts {
		wg.Go(func() { _ = d.rollouts.Run(ctx, d.Supervisor) })
	}
	d.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		_ = client.Close()
	})
	b.daemon = d
	return d
}

// nodeResources lists the node's resources as the command does.
func (b *supervisorHarness) nodeResources(own *OwnResources, d *daemon) []noderesources.Resource {
	list := []noderesources.Resource{own.Reservations}
	if b.exclusive != nil {
		list = append(list, assigned.New(b.exclusive))
	}
	if b.devices != nil {
		list = append(list, devices.New(b.devices))
	}
	if b.claims != nil {
		list = append(list, claims.New(b.claims))
	}
	if b.cgroups != nil {
		list = append(list, cgroups.New(b.cgroups, d.pleg.Observed))
	}
	ports := &hostports.Resource{Rules: b.hostRules, Events: d.events, Proc: b.dir}
	return append(list, own.Volumes, ports, own.Probes, own.Logs)
}

// fakeExec connects probes and runtime as the command does.
type fakeExec struct{ client *cri.Client }

func (e fakeExec) Exec(ctx context.Context, id string, command []string, timeout time.Duration) (probe.ExecResult,
	error) {
	r, err := e.client.ExecSync(ctx, id, command, timeout)
	return probe.ExecResult{Output: slices.Concat(r.Stdout, r.Stderr), ExitCode: r.ExitCode,
		TimedOut: errors.Is(err, cri.ErrTimeout)}, err
}

// fakeHooks connects the syncer and the actions as the command does.
type fakeHooks struct{ actions *probe.Hooks }

func (h fakeHooks) Run(ctx context.Context, hook cri.Hook) error {
	return h.actions.Run(ctx, probe.Hook{Handler: hook.Handler,
		Container: &v1.Container{Name: hook.Name, Ports: hook.Ports}, ID: hook.ContainerID, IP: hook.IP})
}

// status returns the published status, an empty one if there is none.
func (d *daemon) status(uid types.UID) v1.PodStatus {
	st, _ := d.statuses.Get(uid)
	return st
}

func (b *supervisorHarness) path(name string) string { return filepath.Join(b.dir, name) }

// kill stops the daemon at any point. Its calls in flight are cancelled, and it does what it
// does at the end of a sync.
func (b *supervisorHarness) kill() {
	if b.daemon != nil {
		b.daemon.stop()
	}
}

// sigkill stops the daemon as SIGKILL does: its calls in flight are cancelled, and the records
// stay what they are now.
func (b *supervisorHarness) sigkill() {
	b.t.Helper()
	synctest.Wait()
	records := map[string][]byte{}
	for _, name := range b.records() {
		data, err := os.ReadFile(name)
		if err != nil {
			b.t.Fatal(err)
		}
		records[name] = data
	}
	b.kill()
	for _, name := range b.records() {
		if _, ok := records[name]; !ok {
			if err := os.Remove(name); err != nil {
				b.t.Error(err)
			}
		}
	}
	for name, data := range records {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			b.t.Error(err)
		}
	}
}

// records returns the paths of the records and rollouts of pods.
func (b *supervisorHarness) records() (names []string) {
	for _, pattern := range []string{"records/*.json", "ephemeral-containers/*.json", "rollouts/*/*/*.json"} {
		found, err := filepath.Glob(b.path(pattern))
		if err != nil {
			b.t.Fatal(err)
		}
		names = append(names, found...)
	}
	return names
}

// boot returns the ID of the boot that the next daemon sees, empty if it is unknown.
func (b *supervisorHarness) boot() string {
	if b.mark == nil {
		return ""
	}
	mark, _ := b.mark()
	return mark.Boot
}

// restart kills the daemon and starts another whose file source delivers pods.
func (b *supervisorHarness) restart(pods ...*v1.Pod) *daemon {
	b.kill()
	d := b.start()
	d.config.deliver(manifest.SourceFile, pods...)
	return d
}

// after advances the time and waits until all is idle.
func (b *supervisorHarness) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// until advances the time until cond holds.
func (b *supervisorHarness) until(limit time.Duration, what string, cond func() bool) time.Duration {
	b.t.Helper()
	at := time.Now()
	for {
		synctest.Wait()
		if cond() {
			return time.Since(at)
		}
		if time.Since(at) > limit {
			b.t.Fatalf("%s: not within %s\n%s\n%s", what, limit, b.fake.Dump(), b.daemon.log)
		}
		step := 10 * time.Millisecond
		if time.Since(at) > time.Second {
			step *= 10
		}
		time.Sleep(step)
	}
}

// runs waits until exactly one container of the pod runs under the UID.
func (b *supervisorHarness) runs(uid types.UID) time.Duration {
	b.t.Helper()
	return b.until(5*time.Minute, fmt.Sprintf("pod %s runs", uid), func() bool {
		return b.running(uid) == 1 && b.daemon.status(uid).Phase == v1.PodRunning
	})
}

func (b *supervisorHarness) running(uid types.UID) int {
	n := 0
	for _, c := range b.fake.Containers() {
		if c.Running() && c.UID == string(uid) {
			n++
		}
	}
	return n
}

// gone waits until nothing is left of a pod.
func (b *supervisorHarness) gone(uid types.UID) {
	b.t.Helper()
	b.until(5*time.Minute, fmt.Sprintf("pod %s is gone", uid), func() bool {
		if b.daemon.workers.State(uid) != podworkers.None || b.daemon.status(uid).Phase != "" {
			return false
		}
		for _, s := range b.fake.Sandboxes() {
			if s.UID == string(uid) {
				return false
			}
		}
		return true
	})
	for _, dir := range []string{"pods", "logs", "records", "links"} {
		entries, err := os.ReadDir(b.path(dir))
		if err != nil && !os.IsNotExist(err) {
			b.t.Error(err)
		}
		for _, e := range entries {
			link, _ := os.Readlink(filepath.Join(b.path(dir), e.Name()))
			if strings.Contains(e.Name()+link, string(uid)) {
				b.t.Errorf("%s/%s is left", dir, e.Name())
			}
		}
	}
}

// writes returns the modifying calls since the first n.
func (b *supervisorHarness) writes(n int) []string {
	var calls []string
	for _, c := range b.fake.Writes()[n:] {
		calls = append(calls, c.Method+" "+c.Pod+"/"+c.Container)
	}
	return calls
}

// noWrites fails if there was any modifying call since the first n writes,
// except for calls of the methods in but.
func (b *supervisorHarness) noWrites(n int, but ...string) {
	b.t.Helper()
	calls := slices.DeleteFunc(b.writes(n), func(call string) bool {
		method, _, _ := strings.Cut(call, " ")
		return slices.Contains(but, method)
	})
	if len(calls) > 0 {
		b.t.Errorf("the runtime was changed:\n%s", strings.Join(calls, "\n"))
	}
}

// fakeConfig is a PodConfig whose sources deliver what a test sets.
type fakeConfig struct {
	sources []manifest.Source
	updates chan manifest.PodUpdate
	changed chan struct{}

	mu     sync.Mutex
	pods   map[manifest.Source]map[types.UID]*v1.Pod
	spoken map[manifest.Source]bool
	faults map[types.UID]string
	read   map[types.UID]bool
}

func newFakeConfig(sources ...manifest.Source) *fakeConfig {
	return &fakeConfig{
		sources: sources,
		updates: make(chan manifest.PodUpdate, 10000),
		changed: make(chan struct{}, 1),
		pods:    map[manifest.Source]map[types.UID]*v1.Pod{},
		spoken:  map[manifest.Source]bool{},
		faults:  map[types.UID]string{},
		read:    map[types.UID]bool{},
	}
}

func (c *fakeConfig) Updates() <-chan manifest.PodUpdate   { return c.updates }
func (c *fakeConfig) Sources() []manifest.Source           { return c.sources }
func (c *fakeConfig) Subscribe() (<-chan struct{}, func()) { return c.changed, func() {} }
func (c *fakeConfig) FaultFor(uid types.UID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults[uid]
}

// WasRead is true after setRead.
func (c *fakeConfig) WasRead(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read[uid]
}

// setRead makes WasRead true for a pod.
func (c *fakeConfig) setRead(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read[uid] = true
}

func (c *fakeConfig) fault(uid types.UID, text string) {
	c.mu.Lock()
	c.faults[uid] = text
	c.mu.Unlock()
	c.changed <- struct{}{}
}

// deliver sends a full set of a source, restore one from the checkpoint.
func (c *fakeConfig) deliver(source manifest.Source, pods ...*v1.Pod) {
	c.send(manifest.Add, source, pods)
}
func (c *fakeConfig) restore(source manifest.Source, pods ...*v1.Pod) {
	c.send(manifest.Restore, source, pods)
}

// sameRevision reports whether a source would deliver the second pod as no
// change of the first.
func sameRevision(a, b *v1.Pod) bool {
	if podinfo.IsAPI(b) {
		return reflect.DeepEqual(&a.Spec, &b.Spec)
	}
	return a.Annotations[podinfo.AnnotationHash] == b.Annotations[podinfo.AnnotationHash]
}

func (c *fakeConfig) send(add manifest.Op, source manifest.Source, pods []*v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.pods[source]
	next := map[types.UID]*v1.Pod{}
	var removed, added, updated []*v1.Pod
	for _, pod := range pods {
		pod = pod.DeepCopy()
		pod.Annotations[podinfo.AnnotationSource] = string(source)
		next[pod.UID] = pod
		if old := have[pod.UID]; old == nil {
			added = append(added, pod)
		} else if !sameRevision(old, pod) {
			updated = append(updated, pod)
		}
	}
	for uid, pod := range have {
		if next[uid] == nil {
			removed = append(removed, pod)
		}
	}
	slices.SortFunc(removed, func(a, b *v1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	c.pods[source] = next
	names, replaced := map[string]bool{}, map[types.UID]bool{}
	for _, pods := range c.pods {
		for _, pod := range pods {
			names[podinfo.FullName(pod)] = true
		}
	}
	for _, pod := range removed {
		if names[podinfo.FullName(pod)] {
			replaced[pod.UID] = true
		}
	}
	for _, u := range []manifest.PodUpdate{
		{Op: manifest.Remove, Source: source, Pods: removed, Replaced: replaced, Successors: replaced},
		{Op: add, Source: source, Pods: added},
		{Op: manifest.Update, Source: source, Pods: updated},
	} {
		if len(u.Pods) > 0 || u.Op == manifest.Add && !c.spoken[source] {
			c.updates <- u
		}
	}
	c.spoken[source] = c.spoken[source] || add == manifest.Add
}

// logText is the log of a daemon, which tests read while it is written.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// savedFirst fails the test when a status reports a pod as terminated, or a
// probed container as ready, before that is in the record: a daemon that is
// killed in between would revert it.
type savedFirst struct {
	*status.Store
	records *status.Records
	t       testing.TB
	daemon  *daemon
}

func (w savedFirst) Set(uid types.UID, st v1.PodStatus) bool {
	rec := w.records.Load(uid)
	if podinfo.IsTerminal(st.Phase) && rec.Phase != st.Phase {
		w.t.Errorf("%s is published as %s, which is not saved", uid, st.Phase)
	}
	written := rec.Ready
	for _, pod := range w.daemon.desired.List() {
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			for _, reported := range st.ContainerStatuses {
				if pod.UID == uid && podprobes.HasProbes(c) && reported.Name == c.Name && reported.State.Running != nil &&
					reported.Ready != written[c.Name].Ready {
					w.t.Errorf("%s of %s is published as ready: %v, which is not saved", c.Name, uid, reported.Ready)
				}
			}
		}
	}
	w.checkTransitions(uid, &st)
	return w.Store.Set(uid, st)
}

// checkTransitions fails the test when the status of a cluster's pod leaves the terminated state of a container that
// its restart policy keeps down: an API server refuses such a status, and each later one.
func (w savedFirst) checkTransitions(uid types.UID, st *v1.PodStatus) {
	before, known := w.Store.Get(uid)
	for _, pod := range w.daemon.desired.List() {
		if !known || pod.UID != uid || podinfo.PolicyOf(pod).Restarts {
			continue
		}
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			was, is := stateOf(before, c.Name).Terminated, stateOf(*st, c.Name)
			if was != nil && was.Reason == status.ReasonStatusUnknown {
				continue // it is not known how it ended, and the API server's refusal is recovered from
			}
			if was != nil && is.Terminated == nil && len(c.RestartPolicyRules) == 0 &&
				cri.OnExit(pod, c, was.ExitCode) == cri.NoRestart {
				w.t.Errorf("%s of %s leaves the terminated state (exit code %d) with %s: %+v", c.Name, uid, was.ExitCode,
					pod.Spec.RestartPolicy, is)
			}
		}
	}
}

// stateOf returns the state of a regular container in a status.
func stateOf(st v1.PodStatus, name string) v1.ContainerState {
	for i := range st.ContainerStatuses {
		if st.ContainerStatuses[i].Name == name {
			return st.ContainerStatuses[i].State
		}
	}
	return v1.ContainerState{}
}

// testPod returns a pod whose annotations record revision as its template.
func testPod(name string, uid types.UID, revision string) *v1.Pod {
	grace := int64(30)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: uid,
			Annotations: map[string]string{
				podinfo.AnnotationSource:   string(manifest.SourceFile),
				podinfo.AnnotationHash:     revision,
				podinfo.AnnotationTemplate: revision,
			},
		},
		Spec: v1.PodSpec{
			RestartPolicy:                 v1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: &grace,
			Containers: []v1.Container{{
				Name: "app", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent,
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile,
			}},
		},
	}
}
