package pullrecords

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/internal/imagepolicy"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/unwritten"
)

// runtime has images.
type runtime struct {
	mu    sync.Mutex
	names map[string]string // ID by full name
	fault error
}

// addImage gives an image names, in addition to those that it has, and returns its ID.
func (r *runtime) addImage(content string, names ...string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := sha256.Sum256([]byte(content))
	id := "sha256:" + hex.EncodeToString(sum[:])
	for _, name := range names {
		if r.names == nil {
			r.names = map[string]string{}
		}
		r.names[canonical(name)] = id
	}
	return id
}

func (r *runtime) ImageStatus(_ context.Context, image string) (*runtimeapi.Image, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.names[canonical(image)]
	if r.fault != nil || id == "" {
		return nil, r.fault
	}
	found := &runtimeapi.Image{Id: id}
	for name, of := range r.names {
		switch {
		case of != id:
		case strings.Contains(name, "@"):
			found.RepoDigests = append(found.RepoDigests, name)
		default:
			found.RepoTags = append(found.RepoTags, name)
		}
	}
	return found, nil
}

func (r *runtime) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = err
}

// recordsHarness is a runtime with the records of its pulls.
type recordsHarness struct {
	*Records
	t       *testing.T
	runtime *runtime
	files   *unwritten.Files
	dir     string
}

func newRecordsHarness(t *testing.T) *recordsHarness {
	h := &recordsHarness{t: t, runtime: &runtime{}, dir: Dir(t.TempDir())}
	h.restart()
	return h
}

// restart replaces the daemon with one that has no in-memory state.
func (h *recordsHarness) restart() {
	h.files = unwritten.New()
	h.Records = Open(Config{Dir: h.dir, Images: h.runtime, Disk: statefile.Disk{Unwritten: h.files}})
}

// credential returns the login of a Secret; without a UID it is one of a manifest.
func credential(uid, secret, password string) Credential {
	namespace, name, _ := strings.Cut(secret, "/")
	return Credential{Secret: Secret{uid, namespace, name}, Sum: sha256.Sum256([]byte(password))}
}

// pull pulls an image and returns its ID.
func (h *recordsHarness) pull(content, name string, used Credential) string {
	h.t.Helper()
	p, err := h.Begin(h.t.Context(), name)
	if err != nil {
		h.t.Fatal(err)
	}
	id := h.runtime.addImage(content, name)
	p.Succeeded(h.t.Context(), id, used)
	return id
}

// check checks the use of an image that is present.
func (h *recordsHarness) check(mode, name string, own ...Credential) Answer {
	h.t.Helper()
	present, err := h.runtime.ImageStatus(h.t.Context(), name)
	if err != nil || present == nil {
		h.t.Fatalf("image %s is %v: %v", name, present, err)
	}
	return h.Check(h.t.Context(), imagepolicy.Policy{Mode: mode, Allowlist: []string{"listed.test/app"}}, name, present,
		func() []Credential { return own })
}

// mustBe fails the test unless the check under the default policy has this response.
func (h *recordsHarness) mustBe(want Answer, name string, own ...Credential) {
	h.t.Helper()
	if got := h.check("", name, own...); got != want {
		h.t.Errorf("the use of %s with %v: %s, want %s", name, own, got, want)
	}
}

// stored returns the number of files in a directory of the records.
func (h *recordsHarness) stored(dir string) int {
	h.t.Helper()
	entries, err := os.ReadDir(filepath.Join(h.dir, dir))
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	return len(entries)
}

var (
	tenantA = credential("uid-a", "a/login", "pass-a")
	tenantB = credential("uid-b", "b/login", "pass-b")
)

func TestPolicies(t *testing.T) {
	const digest = "@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	for name, c := range map[string]struct {
		prepare func(h *recordsHarness)
		image   string // r.test/app:1 if empty
		own     []Credential
		// The responses with NeverVerifyPreloadedImages and with AlwaysVerify.
		preloaded, always Answer
	}{
		"preloaded": {func(h *recordsHarness) { h.runtime.addImage("x", "r.test/app:1") }, "", nil,
			PolicyAllows, MustAuthenticate},
		"pulled with the pod's own Secret": {func(h *recordsHarness) { h.pull("x", "r.test/app:1", tenantA) }, "",
			[]Credential{tenantB, tenantA}, RecordFound, RecordFound},
		"pulled with another's Secret": {func(h *recordsHarness) { h.pull("x", "r.test/app:1", tenantA) }, "",
			[]Credential{tenantB}, MustAuthenticate, MustAuthenticate},
		"pulled, and no Secret": {func(h *recordsHarness) { h.pull("x", "r.test/app:1", tenantA) }, "", nil,
			MustAuthenticate, MustAuthenticate},
		"pulled without a login": {func(h *recordsHarness) { h.pull("x", "r.test/app:1", Credential{}) }, "", nil,
			RecordFound, RecordFound},
		"pulled by the node": {func(h *recordsHarness) {
			h.pull("x", "r.test/app:1", Credential{Sum: sha256.Sum256([]byte("node"))})
		}, "", nil, RecordFound, RecordFound},
		"the same login in another Secret": {func(h *recordsHarness) { h.pull("x", "r.test/app:1", tenantA) }, "",
			[]Credential{credential("uid-b", "b/other", "pass-a")}, RecordFound, RecordFound},
		"another login in the same Secret": {func(h *recordsHarness) { h.pull("x", "r.test/app:1", tenantA) }, "",
			[]Credential{credential("uid-a", "a/login", "rotated")}, RecordFound, RecordFound},
		"a new Secret of the same name": {func(h *recordsHarness) { h.pull("x", "r.test/app:1", tenantA) }, "",
			[]Credential{credential("uid-2", "a/login", "rotated")}, MustAuthenticate, MustAuthenticate},
		"a manifest's Secret has no identity": {
			func(h *recordsHarness) { h.pull("x", "r.test/app:1", credential("", "a/login", "pass-a")) }, "",
			[]Credential{credential("", "a/login", "rotated"), credential("uid-a", "a/login", "rotated")}, MustAuthenticate,
			MustAuthenticate},
		"another tag": {func(h *recordsHarness) {
			h.pull("x", "r.test/app:1", tenantA)
			h.runtime.addImage("x",
				"r.test/app:2")
		}, "r.test/app:2", []Credential{tenantA}, RecordFound, RecordFound},
		"by digest": {func(h *recordsHarness) {
			h.pull("x", "r.test/app:1", tenantA)
			h.runtime.addImage("x",
				"r.test/app"+digest)
		}, "r.test/app" + digest, []Credential{tenantA}, RecordFound, RecordFound},
		"by digest, of another": {func(h *recordsHarness) {
			h.pull("x", "r.test/app:1", tenantA)
			h.runtime.addImage("x",
				"r.test/app"+digest)
		}, "r.test/app" + digest, []Credential{tenantB}, MustAuthenticate, MustAuthenticate},
		"a repository that nobody has asked": {func(h *recordsHarness) {
			h.pull("x", "r.test/app:1", Credential{})
			h.runtime.addImage("x", "r.test/copy:1")
		}, "r.test/copy:1", []Credential{tenantA}, MustAuthenticate, MustAuthenticate},
		"a short name": {func(h *recordsHarness) { h.pull("x", "docker.io/library/app:1", tenantA) }, "app:1",
			[]Credential{tenantA}, RecordFound, RecordFound},
		"pulled by two": {func(h *recordsHarness) {
			h.pull("x", "r.test/app:1", tenantA)
			h.pull("x", "r.test/app:1",
				tenantB)
		}, "",
			[]Credential{tenantA}, RecordFound, RecordFound},
		"public after all": {func(h *recordsHarness) {
			h.pull("x", "r.test/app:1", tenantA)
			h.pull("x", "r.test/app:1", Credential{})
		}, "",
			[]Credential{tenantB}, RecordFound, RecordFound},
		"loaded by the owner": {func(h *recordsHarness) { h.Preloaded("r.test/app:1", h.pull("x", "r.test/app:1", tenantA)) },
			"", nil, PolicyAllows, MustAuthenticate},
		"a damaged record": {func(h *recordsHarness) {
			h.damage("pulled", h.pull("x", "r.test/app:1", tenantA))
		}, "", []Credential{tenantA}, Failed, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			h := newRecordsHarness(t)
			c.prepare(h)
			image := c.image
			if image == "" {
				image = "r.test/app:1"
			}
			for restarted := range 2 {
				for mode, want := range map[string]Answer{
					"": c.preloaded, imagepolicy.NeverVerifyPreloaded: c.preloaded, imagepolicy.AlwaysVerify: c.always,
					imagepolicy.NeverVerifyAllowlisted: c.always, imagepolicy.NeverVerify: PolicyAllows,
				} {
					if got := h.check(mode, image, c.own...); got != want {
						t.Errorf("policy %q, %d restarts: %s, want %s", mode, restarted, got, want)
					}
				}
				h.restart()
			}
			h.runtime.addImage("x", "listed.test/app:1")
			if got := h.check(imagepolicy.NeverVerifyAllowlisted, "listed.test/app:1"); got != PolicyAllows {
				t.Errorf("an image of the allowlist: %s", got)
			}
		})
	}
}

// path returns the path of the file about an image or a name.
func (h *recordsHarness) path(dir, of string) string {
	return filepath.Join(h.dir, dir, fileKey(of)+".json")
}

// damage overwrites the file about an image.
func (h *recordsHarness) damage(dir, of string) {
	h.t.Helper()
	path := h.path(dir, of)
	if _, err := os.Stat(path); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"version": 1, "image"`), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// A match adds the pod's Secret, so that it counts when the login has changed.
func TestAMatchIsRecorded(t *testing.T) {
	h := newRecordsHarness(t)
	h.pull("x", "r.test/app:1", tenantA)
	h.mustBe(RecordFound, "r.test/app:1", credential("uid-b", "b/other", "pass-a"))
	h.restart()
	h.mustBe(RecordFound, "r.test/app:1", credential("uid-b", "b/other", "rotated"))
	h.mustBe(RecordFound, "r.test/app:1", credential("uid-c", "c/other", "rotated"))
}

// While a pull runs, and when the daemon is killed during one, its image does not count
// as preloaded.
func TestImageOfAnUnfinishedPull(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(h *recordsHarness)
		arrives bool
		want    Answer // after the restart
	}{
		"the image came":      {nil, true, MustAuthenticate},
		"it was there before": {func(h *recordsHarness) { h.runtime.addImage("x", "r.test/app:1") }, true, PolicyAllows},
		"another one came": {func(h *recordsHarness) { h.runtime.addImage("old", "r.test/app:1") }, true,
			MustAuthenticate},
		"the tenant has it": {func(h *recordsHarness) { h.pull("x", "r.test/app:1", Credential{}) }, true, RecordFound},
		"none came":         {nil, false, PolicyAllows},
		"the intent is damaged": {func(h *recordsHarness) {
			if _, err := h.Begin(h.t.Context(), "r.test/app:1"); err != nil {
				h.t.Fatal(err)
			}
			h.damage("intents", "r.test/app:1")
			h.restart()
		}, true, MustAuthenticate},
	} {
		t.Run(name, func(t *testing.T) {
			h := newRecordsHarness(t)
			if c.prepare != nil {
				c.prepare(h)
			}
			if _, err := h.Begin(t.Context(), "r.test/app:1"); err != nil {
				t.Fatal(err)
			}
			if c.arrives {
				id := h.runtime.addImage("x", "r.test/app:1")
				h.mustBe(c.want, "r.test/app:1")
				h.runtime.addImage("x", "r.test/copy:1")
				if got := h.check("", "r.test/copy:1"); got.Allowed() != (c.want == PolicyAllows) {
					t.Errorf("by another name of %s: %s", id, got)
				}
			}
			h.restart()
			h.runtime.fail(errors.New("not yet"))
			if _, err := h.Begin(t.Context(), "r.test/other:1"); err != nil {
				t.Fatal(err)
			}
			h.runtime.fail(nil)
			if !c.arrives {
				h.settleAll(t.Context())
				h.runtime.addImage("x", "r.test/app:1") // by the owner
			}
			h.mustBe(c.want, "r.test/app:1")
			h.restart()
			h.mustBe(c.want, "r.test/app:1")
			if got := h.stored("intents"); got != 0 && name != "the intent is damaged" {
				t.Errorf("%d intents are left", got)
			}
		})
	}
}

// A pull whose reply was lost is settled a minute later.
func TestLostReply(t *testing.T) {
	for name, arrives := range map[string]bool{"the image came": true, "none came": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				h := &recordsHarness{t: t, runtime: &runtime{}, dir: Dir(dir)}
				h.restart()
				p, err := h.Begin(t.Context(), "r.test/app:1")
				if err != nil {
					t.Fatal(err)
				}
				p.Failed(true)
				if arrives {
					h.runtime.addImage("x", "r.test/app:1")
					h.mustBe(MustAuthenticate, "r.test/app:1", tenantA)
				}
				time.Sleep(settleDelay + time.Second)
				synctest.Wait()
				want := MustAuthenticate
				if !arrives {
					h.runtime.addImage("x", "r.test/app:1")
					want = PolicyAllows
				}
				h.mustBe(want, "r.test/app:1", tenantA)
				if got := h.stored("intents"); got != 0 {
					t.Errorf("%d intents are left", got)
				}
			})
		})
	}
}

// A pull that the registry refused leaves nothing, and an image that is there stays what
// it was.
func TestFailedPull(t *testing.T) {
	h := newRecordsHarness(t)
	h.runtime.addImage("x", "r.test/app:1")
	first, err := h.Begin(t.Context(), "r.test/app:1")
	if err != nil {
		t.Fatal(err)
	}
	second, err := h.Begin(t.Context(), "r.test/app:1")
	if err != nil {
		t.Fatal(err)
	}
	first.Failed(false)
	if got := h.stored("intents"); got != 1 {
		t.Errorf("%d intents during the second pull", got)
	}
	second.Failed(false)
	if got := h.stored("intents"); got != 0 {
		t.Errorf("%d intents are left", got)
	}
	h.mustBe(PolicyAllows, "r.test/app:1")
}

// Runtimes answer a pull with an ID or with a digest.
func TestAnswerOfThePull(t *testing.T) {
	h := newRecordsHarness(t)
	p, err := h.Begin(t.Context(), "r.test/app:1")
	if err != nil {
		t.Fatal(err)
	}
	h.runtime.addImage("x", "r.test/app:1")
	p.Succeeded(t.Context(), "r.test/app@sha256:"+strings.Repeat("a", 64), tenantA)
	h.mustBe(RecordFound, "r.test/app:1", tenantA)
	h.mustBe(MustAuthenticate, "r.test/app:1", tenantB)
}

// What cannot be written holds until the daemon ends, and is written as soon as that is
// possible.
func TestDirectoryThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { testUnwritable(t, Dir(dir)) })
}

func testUnwritable(t *testing.T, dir string) {
	h := &recordsHarness{t: t, runtime: &runtime{}, dir: dir}
	h.restart()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _ = h.files.Run(ctx, func([]unwritten.File) {}) }()
	if err := os.WriteFile(h.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := h.Begin(t.Context(), "r.test/app:1")
	if err == nil {
		t.Fatal("no error")
	}
	id := h.runtime.addImage("x", "r.test/app:1")
	h.mustBe(Failed, "r.test/app:1", tenantB)
	p.Succeeded(t.Context(), id, tenantA)
	h.mustBe(MustAuthenticate, "r.test/app:1", tenantB)
	h.mustBe(RecordFound, "r.test/app:1", tenantA)
	if len(h.files.List()) == 0 {
		t.Error("no file is reported")
	}
	if err := os.Remove(h.dir); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	time.Sleep(time.Minute) // unwritten repeats after 10 s
	synctest.Wait()
	if left := h.files.List(); len(left) > 0 {
		t.Errorf("not written: %v", left)
	}
	cancel()
	h.restart()
	h.mustBe(MustAuthenticate, "r.test/app:1", tenantB)
	h.mustBe(RecordFound, "r.test/app:1", tenantA)
}

func TestRecordsOfRemovedImages(t *testing.T) {
	h := newRecordsHarness(t)
	ids := []string{h.pull("x", "r.test/x:1", tenantA), h.pull("y", "r.test/y:1", tenantA),
		h.pull("z", "r.test/z:1", tenantA)}
	h.Forget(h.Mark(), ids[0])
	if got := h.stored("pulled"); got != 2 {
		t.Errorf("%d records after one image was removed", got)
	}
	mark := h.Mark()
	h.Prune(mark, nil) // a runtime that lists nothing
	h.pull("new", "r.test/new:1", tenantA)
	h.Prune(mark, ids[1:2]) // a list from before the pull
	if got := h.stored("pulled"); got != 3 {
		t.Errorf("%d records, want all 3", got)
	}
	h.Prune(h.Mark(), ids[1:2])
	if got := h.stored("pulled"); got != 1 {
		t.Errorf("%d records, want 1", got)
	}
	h.mustBe(RecordFound, "r.test/y:1", tenantA)
	h.mustBe(PolicyAllows, "r.test/z:1")
}

// The record of an image that is pulled again while it is removed, or while the images are
// listed, stays, although the pull proves nothing new.
func TestImageRemovedAndPulledAgain(t *testing.T) {
	for name, remove := range map[string]func(h *recordsHarness, mark uint64, id string){
		"removed": func(h *recordsHarness, mark uint64, id string) { h.Forget(mark, id) },
		"listed":  func(h *recordsHarness, mark uint64, _ string) { h.Prune(mark, []string{strings.Repeat("0", 64)}) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newRecordsHarness(t)
			id := h.pull("x", "r.test/app:1", tenantA)
			mark := h.Mark()
			h.pull("x", "r.test/app:1", tenantA)
			remove(h, mark, id)
			h.mustBe(MustAuthenticate, "r.test/app:1", tenantB)
			h.mustBe(RecordFound, "r.test/app:1", tenantA)

			remove(h, h.Mark(), id)
			if got := h.stored("pulled"); got != 0 {
				t.Errorf("%d records are left", got)
			}
			h.pull("x", "r.test/app:1", tenantA)
			h.mustBe(MustAuthenticate, "r.test/app:1", tenantB)
			h.mustBe(RecordFound, "r.test/app:1", tenantA)

			// A pull that began before the removal ends without a response.
			if _, err := h.Begin(t.Context(), "r.test/app:1"); err != nil {
				t.Fatal(err)
			}
			remove(h, h.Mark(), id)
			h.mustBe(MustAuthenticate, "r.test/app:1", tenantB)
			h.restart()
			h.mustBe(MustAuthenticate, "r.test/app:1", tenantB)
		})
	}
}

// A pull that fails after its image came, also while another one succeeds, does not leave a
// preloaded image.
func TestFailureAfterTheImageCame(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(h *recordsHarness, first, second *Pull)
		want Answer
	}{
		"a definite error": {func(h *recordsHarness, first, second *Pull) {
			second.Failed(false)
			h.runtime.addImage("x", "r.test/app:1")
			first.Failed(false)
		}, MustAuthenticate},
		"an earlier definite error": {func(h *recordsHarness, first, second *Pull) {
			h.runtime.addImage("x", "r.test/app:1")
			first.Failed(false)
			second.Failed(false)
		}, MustAuthenticate},
		"no answer, and it came after another": {func(h *recordsHarness, first, second *Pull) {
			first.Failed(true)
			second.Succeeded(h.t.Context(), h.runtime.addImage("y", "r.test/app:1"), tenantB)
			h.runtime.addImage("x", "r.test/app:1")
		}, MustAuthenticate},
		"the owner loaded it meanwhile": {func(h *recordsHarness, first, second *Pull) {
			h.Preloaded("r.test/app:1", h.runtime.addImage("x", "r.test/app:1"))
			first.Failed(false)
			second.Failed(false)
		}, PolicyAllows},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				h := &recordsHarness{t: t, runtime: &runtime{}, dir: Dir(dir)}
				h.restart()
				var pulls []*Pull
				for range 2 {
					p, err := h.Begin(t.Context(), "r.test/app:1")
					if err != nil {
						t.Fatal(err)
					}
					pulls = append(pulls, p)
				}
				c.end(h, pulls[0], pulls[1])
				h.mustBe(c.want, "r.test/app:1", tenantB)
				time.Sleep(settleDelay + time.Second)
				synctest.Wait()
				h.mustBe(c.want, "r.test/app:1", tenantB)
				if got := h.stored("intents"); got != 0 {
					t.Errorf("%d intents are left", got)
				}
			})
		})
	}
}

// A failure is settled a minute after it, also if an earlier one is due before.
func TestLaterFailureIsSettledLater(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h := &recordsHarness{t: t, runtime: &runtime{}, dir: Dir(dir)}
		h.restart()
		for range 2 {
			p, err := h.Begin(t.Context(), "r.test/app:1")
			if err != nil {
				t.Fatal(err)
			}
			p.Failed(true)
			time.Sleep(settleDelay - time.Second)
			synctest.Wait()
		}
		h.runtime.addImage("x", "r.test/app:1")
		h.mustBe(MustAuthenticate, "r.test/app:1")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		h.mustBe(MustAuthenticate, "r.test/app:1")
		if got := h.stored("intents"); got != 0 {
			t.Errorf("%d intents are left", got)
		}
	})
}

// A record stays below the size that is read, and forgets the oldest.
func TestRecordIsBounded(t *testing.T) {
	h := newRecordsHarness(t)
	long := strings.Repeat("n", 253)
	id := h.runtime.addImage("x")
	full := newRecord(id)
	for i := range maxNames + 1 {
		name := fmt.Sprintf("r.test/app-%d", i)
		h.runtime.addImage("x", name+":1")
		for k := range maxSecrets + 1 {
			if !full.grant(name, credential(fmt.Sprintf("uid-%033d", k), long+"/"+long, fmt.Sprint(k))) {
				t.Fatal("nothing was granted")
			}
		}
	}
	data, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > maxFile-maxFile/4 {
		t.Errorf("the record has %d bytes", len(data))
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(h.path("pulled", id)), 0o700),
		os.WriteFile(h.path("pulled", id), data, 0o600)); err != nil {
		t.Fatal(err)
	}
	last := fmt.Sprintf("r.test/app-%d:1", maxNames)
	h.mustBe(MustAuthenticate, "r.test/app-0:1", credential("", "b/x", "5"))
	h.mustBe(MustAuthenticate, last, credential("", "b/x", "0"))
	h.mustBe(RecordFound, last, credential("", "b/x", "1"))
	if h.epoch != 0 {
		t.Error("a full record is written for each match")
	}
}

// A record reveals no login, not even that two images have the same.
func TestLoginsAreSalted(t *testing.T) {
	h := newRecordsHarness(t)
	var hashes []string
	for _, name := range []string{"x", "y"} {
		h.mu.Lock()
		found, err := h.load(h.runtime.addImage(name))
		h.mu.Unlock()
		if found != nil || err != nil {
			t.Fatal(found, err)
		}
		id := h.pull(name, "r.test/"+name+":1", tenantA)
		data, err := os.ReadFile(h.path("pulled", id))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "pass-a") || strings.Contains(string(data), hex.EncodeToString(tenantA.Sum[:])) {
			t.Errorf("the login is in %s", data)
		}
		if info, err := os.Stat(h.path("pulled", id)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v (%v)", info, err)
		}
		h.mu.Lock()
		found, err = h.load(id)
		h.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, found.Names[0].Secrets[0].Hash)
	}
	if hashes[0] == hashes[1] {
		t.Error("two records have the same hash")
	}
}

// Without records everything is allowed.
func TestNoRecords(t *testing.T) {
	var r *Records
	p, err := r.Begin(t.Context(), "r.test/app:1")
	if err != nil {
		t.Fatal(err)
	}
	p.Succeeded(t.Context(), "id", tenantA)
	p.Failed(true)
	r.Forget(r.Mark(), "id")
	r.Preloaded("r.test/app:1", "id")
	r.Prune(r.Mark(), []string{"id"})
	if got := r.Check(t.Context(), imagepolicy.Policy{Mode: imagepolicy.AlwaysVerify}, "r.test/app:1", &runtimeapi.Image{},
		nil); got != PolicyAllows {
		t.Error(got)
	}
}

// However many pulls a daemon did not see the end of, the next one knows all of them.
func TestManyIntents(t *testing.T) {
	const count, every = 1100, 20
	h := newRecordsHarness(t)
	name := func(i int) string { return fmt.Sprintf("r.test/app-%d:1", i) }
	if err := os.MkdirAll(filepath.Join(h.dir, "intents"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		if err := os.WriteFile(h.path("intents", canonical(name(i))), []byte(fmt.Sprintf(`{"image":%q}`, name(i))),
			0o600); err != nil {
			t.Fatal(err)
		}
		if i%every == 0 {
			h.runtime.addImage(fmt.Sprint(i), name(i))
		}
	}
	h.restart()
	allowed := 0
	for i := 0; i < count; i += every {
		if h.check("", name(i), tenantA).Allowed() {
			allowed++
		}
	}
	if left := h.stored("intents"); allowed > 0 || left > 0 {
		t.Errorf("a pod of any tenant may use %d of %d images, %d intents are left", allowed, count/every, left)
	}
}
