package manifest

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstead/podstead/internal/registry"
	"github.com/podstead/podstead/test/image"
)

// memoryRegistry is an ArtifactRegistry without a network, so that it can be used in a
// synctest bubble.
type memoryRegistry struct {
	mu        sync.Mutex
	tags      map[string]string // digest by repository:tag
	manifests map[string]registry.Manifest
	blobs     map[string][]byte
	// fail is returned for a repository; "" is all of them.
	fail map[string]error
	// asked are the times at which a digest was requested, fetched counts manifests.
	asked   []time.Time
	fetched int
	// hang blocks requests until their context ends, held those for one repository until it
	// is closed.
	hang     bool
	heldName string
	held     chan struct{}
}

func newMemoryRegistry() *memoryRegistry {
	return &memoryRegistry{tags: map[string]string{}, manifests: map[string]registry.Manifest{},
		blobs: map[string][]byte{}, fail: map[string]error{}}
}

// push makes an artifact of files, given as name, script, name, script, …; it returns the
// digest.
func (m *memoryRegistry) push(reference string, files ...string) string {
	var layers []registry.Descriptor
	var blobs [][]byte
	for i := 0; i < len(files); i += 2 {
		layers = append(layers, registry.Descriptor{MediaType: "application/yaml",
			Annotations: map[string]string{annotationTitle: files[i]}})
		blobs = append(blobs, []byte(files[i+1]))
	}
	return m.pushLayers(reference, layers, blobs)
}

func (m *memoryRegistry) pushLayers(reference string, layers []registry.Descriptor, blobs [][]byte) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range layers {
		layers[i].Digest, layers[i].Size = "sha256:"+Digest(blobs[i]), int64(len(blobs[i]))
		m.blobs[layers[i].Digest] = blobs[i]
	}
	digest := "sha256:" + Digest(fmt.Append(nil, layers))
	m.manifests[digest] = registry.Manifest{MediaType: registry.TypeManifest, Digest: digest, Layers: layers}
	m.tags[reference] = digest
	return digest
}

// requests returns how many manifests were fetched, and the times at which digests were
// requested since the last call.
func (m *memoryRegistry) requests() (fetched int, asked []time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked, m.asked = m.asked, nil
	return m.fetched, asked
}

func (m *memoryRegistry) untag(reference string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tags, reference)
}

func (m *memoryRegistry) setHanging(hang bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hang = hang
}

func (m *memoryRegistry) setError(name string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail[name] = err
}

// hold blocks requests for a repository until the function is called.
func (m *memoryRegistry) hold(name string) (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heldName, m.held = name, make(chan struct{})
	return sync.OnceFunc(func() { close(m.held) })
}

func (m *memoryRegistry) check(ctx context.Context, r registry.Reference) error {
	m.mu.Lock()
	hang, held := m.hang, m.held
	if r.Name() != m.heldName {
		held = nil
	}
	m.mu.Unlock()
	if hang || held != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-held:
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail[""]; err != nil {
		return err
	}
	return m.fail[r.Name()]
}

func (m *memoryRegistry) Resolve(ctx context.Context, r registry.Reference,
	_ ...registry.Credential) (registry.Descriptor, error) {
	m.mu.Lock()
	m.asked = append(m.asked, time.Now())
	m.mu.Unlock()
	if err := m.check(ctx, r); err != nil {
		return registry.Descriptor{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	digest, ok := m.tags[r.String()]
	if !ok {
		return registry.Descriptor{}, registry.ErrNotFound
	}
	return registry.Descriptor{Digest: digest}, nil
}

func (m *memoryRegistry) FetchManifest(ctx context.Context, r registry.Reference, _ int64,
	_ ...registry.Credential) (registry.Manifest, error) {
	if err := m.check(ctx, r); err != nil {
		return registry.Manifest{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fetched++
	manifest, ok := m.manifests[r.Digest]
	if !ok {
		return registry.Manifest{}, registry.ErrNotFound
	}
	return manifest, nil
}

func (m *memoryRegistry) FetchBlob(ctx context.Context, r registry.Reference, blob registry.Descriptor, limit int64,
	_ ...registry.Credential) ([]byte, error) {
	if err := m.check(ctx, r); err != nil {
		return nil, err
	}
	if blob.Size > limit {
		return nil, registry.ErrTooLarge
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.blobs[blob.Digest]
	if !ok {
		return nil, registry.ErrNotFound
	}
	return data, nil
}

func (m *memoryRegistry) Credentials(context.Context, registry.Reference) ([]registry.Credential, error) {
	return nil, nil
}

// ociHarness is an OCISource in a synctest bubble and its registry.
type ociHarness struct {
	t        *testing.T
	registry *memoryRegistry
	path     string
	loader   *scriptLoader
	opts     OCISourceOptions
	cp       *Checkpoint
	sink     *sinkDeliverer
	source   *OCISource
	stop     func()
}

const testArtifact = "registry.test/fleet/web:stable"

func inOCIBubble(t *testing.T, test func(b *ociHarness)) {
	path := filepath.Join(t.TempDir(), "checkpoint.json")
	synctest.Test(t, func(t *testing.T) {
		b := &ociHarness{t: t, registry: newMemoryRegistry(), path: path, loader: newScriptLoader()}
		b.opts = OCISourceOptions{Artifacts: []string{testArtifact}, Node: "node"}
		test(b)
		b.end()
	})
}

func (b *ociHarness) end() {
	if b.stop != nil {
		b.stop()
	}
}

// start starts a new daemon with the checkpoint of the one before.
func (b *ociHarness) start() {
	b.t.Helper()
	b.end()
	b.cp = openTestCheckpoint(b.t, b.path)
	b.sink = newSinkOf(b.t, b.cp, quietLog(), SourceOCI)
	b.opts.Registry, b.opts.Credentials, b.opts.Loader, b.opts.Checkpoint, b.opts.Deliver = b.registry, b.registry,
		b.loader, b.cp, b.sink
	var err error
	if b.source, err = NewOCISource(b.opts); err != nil {
		b.t.Fatal(err)
	}
	b.source.jitter = func() float64 { return 0 }
	b.stop = runInBackground(b.t, b.source.Run)
	b.settle()
}

// settle waits until nothing happens without the time passing, and applies the updates.
func (b *ociHarness) settle() {
	synctest.Wait()
	for len(b.sink.sets) > 0 {
		<-b.sink.sets
	}
	b.sink.model.drain(b.sink.config)
}

// pass lets time pass.
func (b *ociHarness) pass(d time.Duration) {
	time.Sleep(d)
	b.settle()
}

func (b *ociHarness) wantPods(names ...string) {
	b.t.Helper()
	if got := b.sink.model.running(); !slices.Equal(got, names) {
		b.t.Fatalf("pods are %q, want %q; updates %q; faults %v", got, names, b.sink.model.log, b.sink.config.Faults())
	}
}

func (b *ociHarness) wantLog(want ...string) {
	b.t.Helper()
	if got := b.sink.model.log; !slices.Equal(got, want) {
		b.t.Fatalf("updates are %q, want %q", got, want)
	}
}

// wantFault checks that all of the faults together contain the text, or that there is none.
func (b *ociHarness) wantFault(text string) {
	b.t.Helper()
	if got := Faults(b.sink.config.Faults()).Error(); !strings.Contains(got, text) || text == "" && got != "" {
		b.t.Fatalf("faults are %q, want %q", got, text)
	}
}

func TestOCISourceFollowsTheTag(t *testing.T) {
	inOCIBubble(t, func(b *ociHarness) {
		b.registry.push(testArtifact, "a.yaml", "a 1", "b.yaml", "b 1\ncm settings x")
		b.start()
		b.wantPods("a=1", "b=1")
		digest := b.registry.push(testArtifact, "a.yaml", "a 2", "b.yaml", "b 1")
		b.pass(defaultInterval)
		b.wantPods("a=2", "b=1")
		b.wantLog("ADD oci a=1 b=1", "REMOVE oci a=1", "ADD oci a=2")
		if view := b.sink.config.Snapshot()[0].Units[0]; view.Name != "registry.test/fleet/web" || view.Revision != digest {
			t.Errorf("unit is %+v", view)
		}
		b.registry.push(testArtifact, "none.yaml", "empty")
		b.pass(defaultInterval)
		b.wantPods()
		// A request for the digest is all that a poll costs.
		before, _ := b.registry.requests()
		b.pass(10 * defaultInterval)
		if fetched, asked := b.registry.requests(); fetched != before || len(asked) != 10 {
			t.Errorf("%d manifests and %d digests were requested in 10 intervals", fetched-before, len(asked))
		}
	})
}

// The same files pushed again change nothing but the digest that is shown.
func TestOCISourceSameContent(t *testing.T) {
	inOCIBubble(t, func(b *ociHarness) {
		b.registry.push(testArtifact, "a.yaml", "a 1", "b.yaml", "b 1")
		b.start()
		digest := b.registry.push(testArtifact, "b.yaml", "b 1", "a.yaml", "a 1")
		b.pass(defaultInterval)
		b.wantLog("ADD oci a=1 b=1")
		if got := b.sink.config.Snapshot()[0].Units[0].Revision; got != digest ||
			b.loader.count("registry.test/fleet/web#a.yaml") != 1 {
			t.Errorf("revision %s, want %s; loaded %d times", got, digest, b.loader.count("registry.test/fleet/web#a.yaml"))
		}
	})
}

// Any failure keeps the last good revision as a whole, is reported, and can be temporary.
func TestOCISourceKeepsLastGood(t *testing.T) {
	archive := []registry.Descriptor{{MediaType: "application/vnd.cncf.flux.content.v1.tar+gzip"}}
	for name, c := range map[string]struct {
		change func(b *ociHarness)
		fault  string
	}{
		"a broken file": {func(b *ociHarness) { b.registry.push(testArtifact, "a.yaml", "a 2", "b.yaml", "broken") },
			"registry.test/fleet/web#b.yaml:1: is broken"},
		"an empty file": {func(b *ociHarness) { b.registry.push(testArtifact, "a.yaml", "a 2", "b.yaml", "") },
			"web#b.yaml: contains no manifest"},
		"no manifest": {func(b *ociHarness) { b.registry.push(testArtifact, "README.md", "x") },
			"registry.test/fleet/web: contains no manifest"},
		"the same pod twice": {func(b *ociHarness) { b.registry.push(testArtifact, "a.yaml", "a 2", "b.yaml", "a 3") },
			"registry.test/fleet/web#b.yaml: Pod default/a: metadata.name: the pod is also declared in a.yaml"},
		"an object twice": {func(b *ociHarness) { b.registry.push(testArtifact, "a.yaml", "cm x 1", "b.yaml", "cm x 1") },
			"ConfigMap default/x: metadata.name: the object is also declared in a.yaml"},
		"a broken archive": {func(b *ociHarness) {
			b.registry.pushLayers(testArtifact, archive,
				[][]byte{[]byte("garbage")})
		}, "layer 1 is not a valid archive"},
		"a broken file in an archive": {func(b *ociHarness) {
			b.registry.pushLayers(testArtifact, archive,
				[][]byte{gzipOf(t, tarOf(t, entry{name: "pods/a.yaml", data: "broken"}))})
		}, "registry.test/fleet/web#pods/a.yaml:1: is broken"},
		"too large": {func(b *ociHarness) {
			b.registry.push(testArtifact, "a.yaml", strings.Repeat("x", MaxUnitSize+1))
		}, "too large; split it into several artifacts"},
		"the tag is gone": {func(b *ociHarness) { b.registry.untag(testArtifact) }, "registry.test/fleet/web: cannot " +
			"read registry.test/fleet/web:stable: not found; last read at 2000-01-01T00:00:00Z; push the tag again"},
		"unauthorized": {func(b *ociHarness) { b.registry.setError("", registry.ErrUnauthorized) },
			"check the node's credentials"},
		"the registry is gone": {func(b *ociHarness) { b.registry.setError("", registry.ErrUnreachable) },
			"unreachable; last read at 2000-01-01T00:00:00Z; its pods keep running; retrying"},
		"another content": {func(b *ociHarness) { b.registry.setError("", registry.ErrDigestMismatch) }, "digest mismatch"},
		"an unsupported layer": {func(b *ociHarness) {
			b.registry.pushLayers(testArtifact,
				[]registry.Descriptor{{MediaType: "application/vnd.oci.image.layer.v1.tar+zstd"}}, [][]byte{nil})
		}, "unsupported media type"},
		"an index of no images": {func(b *ociHarness) {
			b.registry.pushLayers(testArtifact, nil,
				nil)
			b.registry.makeIndex()
		}, "is an index of images of which none is for"},
	} {
		t.Run(name, func(t *testing.T) {
			inOCIBubble(t, func(b *ociHarness) {
				b.registry.push(testArtifact, "a.yaml", "a 1", "b.yaml", "b 1")
				b.start()
				c.change(b)
				b.pass(defaultInterval)
				b.wantPods("a=1", "b=1")
				b.wantFault(c.fault)
				uid := b.sink.config.Snapshot()[0].Units[0].Pods[0].UID
				if b.sink.config.FaultFor(uid) == "" {
					t.Error("the pods show no fault")
				}
				// The fault is the same at each attempt, and survives a restart without the pods.
				b.pass(time.Hour)
				if len(b.sink.model.log) != 1 {
					t.Errorf("updates %q", b.sink.model.log)
				}
				b.start()
				b.pass(restoreDelay)
				b.wantPods("a=1", "b=1")
				b.registry.setError("", nil)
				b.registry.push(testArtifact, "a.yaml", "a 3")
				b.pass(2 * maxRetry)
				b.wantPods("a=3")
				b.wantFault("")
			})
		})
	}
}

// makeIndex turns the pushed manifest into an index without manifests.
func (m *memoryRegistry) makeIndex() {
	m.mu.Lock()
	defer m.mu.Unlock()
	digest := m.tags[testArtifact]
	index := m.manifests[digest]
	index.MediaType = registry.TypeIndex
	m.manifests[digest] = index
}

// A build of an image for several platforms, with its attestations, is read as the one for
// this machine.
func TestOfPlatform(t *testing.T) {
	platform := func(os, arch string) *registry.Platform { return &registry.Platform{OS: os, Architecture: arch} }
	this := registry.Descriptor{Digest: "this", Platform: platform("linux", runtime.GOARCH)}
	other := registry.Descriptor{Digest: "other", Platform: platform("linux", "s390x")}
	attestation := registry.Descriptor{Digest: "attestation", Platform: platform("unknown", "unknown")}
	for want, index := range map[string][]registry.Descriptor{
		"this": {other, attestation, this}, "other": {attestation, other}, "": {attestation},
	} {
		got := ofPlatform(index)
		if got == nil && want != "" || got != nil && got.Digest != want {
			t.Errorf("%v: %v, want %q", index, got, want)
		}
	}
	if got := ofPlatform([]registry.Descriptor{{Platform: platform("linux", "x")},
		{Platform: platform("linux", "y")}}); got != nil {
		t.Errorf("another platform: %v", got)
	}
}

// A host that boots without a network runs what it ran; what another configuration had is
// removed with the first complete set.
func TestOCISourceRestoresAtBoot(t *testing.T) {
	inOCIBubble(t, func(b *ociHarness) {
		b.registry.push(testArtifact, "a.yaml", "a 1")
		b.registry.push("registry.test/fleet/old:v1", "old.yaml", "old 1")
		b.opts.Artifacts = []string{testArtifact, "registry.test/fleet/old:v1"}
		b.start()
		b.wantPods("a=1", "old=1")
		b.opts.Artifacts = []string{testArtifact, "oci://registry.test/fleet/new:v1"}
		b.registry.setHanging(true)
		b.start()
		b.wantPods()
		b.pass(restoreDelay)
		b.wantLog("RESTORE oci a=1 old=1")
		b.wantFault("registry.test/fleet/web: the registry has not answered yet; its pods keep running; retrying")
		b.end()
		b.registry.setHanging(false)
		b.registry.push("registry.test/fleet/new:v1", "new.yaml", "new 1")
		b.start()
		// What is not given any more does not start.
		b.wantLog("ADD oci a=1 new=1")
		b.wantPods("a=1", "new=1")
		b.wantFault("")
	})
}

// An artifact with a digest is read once, and needs no registry after a restart.
func TestOCISourceWithDigest(t *testing.T) {
	inOCIBubble(t, func(b *ociHarness) {
		digest := b.registry.push(testArtifact, "a.yaml", "a 1")
		b.opts.Artifacts = []string{"registry.test/fleet/web@" + digest}
		b.registry.setError("", registry.ErrUnreachable)
		b.start()
		b.wantFault("unreachable")
		b.registry.setError("", nil)
		b.pass(maxRetry)
		b.wantPods("a=1")
		b.wantFault("")
		b.registry.setError("", registry.ErrUnreachable)
		before, _ := b.registry.requests()
		b.pass(time.Hour)
		b.start()
		b.wantLog("ADD oci a=1")
		b.wantFault("")
		if fetched, asked := b.registry.requests(); fetched != before || len(asked) > 0 {
			t.Errorf("%d manifests and %d digests were requested again", fetched-before, len(asked))
		}
	})
}

// One artifact that is away keeps no other from being changed, only cleanup waits for it.
func TestOCISourceSeveralArtifacts(t *testing.T) {
	inOCIBubble(t, func(b *ociHarness) {
		b.registry.push(testArtifact, "a.yaml", "a 1\nb 1")
		b.opts.Artifacts = []string{testArtifact, "other.test/db:v1"}
		b.registry.setError("other.test/db", registry.ErrUnreachable)
		var read atomic.Value
		b.opts.Read = func(at time.Time) { read.Store(at) }
		sinceRead := func() time.Duration {
			at, _ := read.Load().(time.Time)
			return time.Since(at)
		}
		b.start()
		b.pass(restoreDelay)
		b.wantPods("a=1", "b=1")
		b.registry.push(testArtifact, "a.yaml", "a 2")
		b.pass(defaultInterval)
		b.wantPods("a=2")
		b.wantFault("other.test/db: cannot read other.test/db:v1: unreachable")
		view := b.sink.config.Snapshot()[0]
		if view.Delivered || !view.LastRead.IsZero() ||
			strings.Contains(b.sink.config.FaultFor(view.Units[1].Pods[0].UID), "other") {
			t.Errorf("source is %+v", view)
		}
		b.registry.push("other.test/db:v1", "db.yaml", "db 1")
		b.registry.setError("other.test/db", nil)
		b.pass(2 * maxRetry)
		b.wantPods("a=2", "db=1")
		b.wantFault("")
		view = b.sink.config.Snapshot()[0]
		if !view.Delivered || sinceRead() > 2*defaultInterval {
			t.Errorf("source is %+v, read %v ago", view, sinceRead())
		}
		// What is not read any more is the older one.
		b.registry.setError("other.test/db", registry.ErrUnreachable)
		b.pass(time.Hour)
		if sinceRead() < time.Hour-defaultInterval {
			t.Errorf("last read %v ago", sinceRead())
		}
	})
}

// What is known of a source with several artifacts is not taken for all of it: not before
// each could have responded, and not while one is away that was never read.
func TestOCISourceAwaitsEachArtifact(t *testing.T) {
	inOCIBubble(t, func(b *ociHarness) {
		b.registry.push(testArtifact, "a.yaml", "a 1")
		b.opts.Artifacts = []string{testArtifact, "other.test/db:v1"}
		release := b.registry.hold("other.test/db")
		b.start()
		b.wantLog()
		time.Sleep(restoreDelay)
		synctest.Wait()
		u, _ := b.sink.config.next()
		if u.Op != Restore || !u.Awaited || len(u.Pods) != 1 || !b.sink.config.WasRead(u.Pods[0].UID) {
			t.Errorf("update is %+v", u)
		}
		b.registry.push("other.test/db:v1", "db.yaml", "db 1")
		release()
		time.Sleep(2 * maxRetry)
		synctest.Wait()
		if u, _ := b.sink.config.next(); u.Op != Add || u.Awaited || len(u.Pods) != 1 {
			t.Errorf("update is %+v", u)
		}
		// What was read once is known without the registry.
		b.registry.setHanging(true)
		b.start()
		time.Sleep(restoreDelay)
		synctest.Wait()
		u, _ = b.sink.config.next()
		if u.Op != Restore || u.Awaited || len(u.Pods) != 2 || b.sink.config.WasRead(u.Pods[0].UID) {
			t.Errorf("update is %+v", u)
		}
	})
}

// An artifact that was never valid reports nothing about the pods that should run.
func TestOCISourceInvalidAtBoot(t *testing.T) {
	inOCIBubble(t, func(b *ociHarness) {
		b.registry.push(testArtifact, "a.yaml", "broken")
		b.start()
		if view := b.sink.config.Snapshot()[0]; view.Delivered ||
			!slices.Equal(view.Incomplete, []string{"registry.test/fleet/web"}) {
			t.Errorf("source is %+v", view)
		}
	})
}

func TestOCISourceIntervals(t *testing.T) {
	inOCIBubble(t, func(b *ociHarness) {
		gaps := func() (all []time.Duration) {
			_, asked := b.registry.requests()
			for i := 1; i < len(asked); i++ {
				all = append(all, asked[i].Sub(asked[i-1]))
			}
			return all
		}
		b.registry.setError("", registry.ErrUnreachable)
		b.start()
		b.pass(30 * time.Second)
		if got := gaps(); !slices.Equal(got,
			[]time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}) {
			t.Errorf("gaps without an answer: %v", got)
		}
		b.registry.setError("", nil)
		b.registry.push(testArtifact, "a.yaml", "a 1")
		b.pass(maxRetry)
		b.source.mu.Lock()
		b.source.jitter = func() float64 { return 1 }
		b.source.mu.Unlock()
		b.pass(time.Minute)
		gaps()
		b.pass(time.Minute)
		for _, gap := range gaps() {
			if gap != defaultInterval+defaultInterval/10 {
				t.Errorf("gap %v", gap)
			}
		}
	})
}

// A revision that is not verified changes nothing, until it is.
func TestOCISourceVerifies(t *testing.T) {
	inOCIBubble(t, func(b *ociHarness) {
		// The response of the verification by digest; none is not signed.
		var responses sync.Map
		b.opts.Verify = func(_ context.Context, a Artifact) error {
			switch response, _ := responses.Load(a.Reference.Digest); response {
			case "signed":
				return nil
			case "unreachable":
				return registry.ErrUnreachable
			}
			return errors.New("is not signed")
		}
		digest := b.registry.push(testArtifact, "a.yaml", "a 1")
		responses.Store(digest, "signed")
		b.start()
		b.wantPods("a=1")
		digest = b.registry.push(testArtifact, "a.yaml", "a 2")
		b.pass(defaultInterval)
		b.wantPods("a=1")
		b.wantFault("registry.test/fleet/web: is not signed")
		responses.Store(digest, "unreachable")
		b.pass(defaultInterval)
		b.wantFault("unreachable")
		responses.Store(digest, "signed")
		b.pass(2 * maxRetry)
		b.wantPods("a=2")
		b.wantFault("")
		// A reference by digest is verified after each start.
		b.opts.Artifacts = []string{"registry.test/fleet/web@" + digest}
		responses.Delete(digest)
		b.start()
		b.pass(restoreDelay)
		b.wantFault("is not signed")
		b.wantPods("a=2")
		responses.Store(digest, "signed")
		b.pass(2 * defaultInterval)
		b.wantFault("")
	})
}

// An attacker who can change the responses of a registry can change the manifests.
func TestOCISourceWarnsWithoutTLS(t *testing.T) {
	inOCIBubble(t, func(b *ociHarness) {
		b.registry.push(testArtifact, "a.yaml", "a 1")
		b.opts.WithoutTLS = func(string) bool { return true }
		b.start()
		b.wantPods("a=1")
		b.wantFault("registry.test/fleet/web: is read without TLS")
	})
}

// bobsLogin is a credential as the node has it.
type bobsLogin struct{ password string }

func (l bobsLogin) Credentials(context.Context, registry.Reference) ([]registry.Credential, error) {
	return []registry.Credential{{Username: "bob", Password: l.password}}, errors.New("no such plugin")
}

// The files of an artifact, of an archive as Flux pushes it and of an image built from
// scratch are the same to a node, which logs in to the registry.
func TestOCISourceReadsARegistry(t *testing.T) {
	login := &image.Login{User: "bob", Password: "hunter2", Bearer: true}
	served := &image.Registry{}
	server := httptest.NewServer(login.Require(served))
	t.Cleanup(server.Close)
	client, err := registry.New(registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	reference := strings.TrimPrefix(server.URL, "http://") + "/fleet/web:v1"
	archive := tarOf(t, entry{name: "pods/a.yaml", data: "a 1"}, entry{name: "b.yaml", data: "b 1"})
	layer, err := image.GzipLayer(archive)
	if err != nil {
		t.Fatal(err)
	}
	start := func(password string) *sinkDeliverer {
		cp := openTestCheckpoint(t, "")
		sink := newSinkOf(t, cp, quietLog(), SourceOCI)
		source, err := NewOCISource(OCISourceOptions{Artifacts: []string{reference}, Registry: client,
			Credentials: bobsLogin{password},
			Loader:      newScriptLoader(), Checkpoint: cp, Deliver: sink, Node: "node"})
		if err != nil {
			t.Fatal(err)
		}
		runInBackground(t, source.Run)
		return sink
	}
	for name, push := range map[string]func() error{
		"files": func() error {
			_, err := served.PushArtifact(reference,
				image.Artifact{Layers: []image.Layer{image.Blob("application/yaml", "a.yaml", []byte("a 1")),
					image.Blob("application/vnd.oci.image.layer.v1.tar", "b.yaml", []byte("b 1"))}})
			return err
		},
		"flux": func() error {
			_, err := served.PushArtifact(reference, image.Artifact{
				Config: image.Blob("application/vnd.cncf.flux.config.v1+json", "", []byte("{}")),
				Layers: []image.Layer{image.Blob("application/vnd.cncf.flux.content.v1.tar+gzip", "", gzipOf(t, archive))},
			})
			return err
		},
		"an image": func() error {
			return served.Push(reference, image.Image{Architecture: runtime.GOARCH,
				Layers: []image.Layer{image.PlainLayer(archive), layer}})
		},
	} {
		if err := push(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		start("hunter2").awaitPods("a=1", "b=1")
	}
	set := start("hunter3").awaitFault("401 Unauthorized")
	if text := setFaults(set); !strings.Contains(text, "credential lookup failed: no such plugin") ||
		strings.Contains(text, "hunter") {
		t.Errorf("faults are %s", text)
	}
}
