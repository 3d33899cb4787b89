package sources

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/test/e2e/harness"
)

// A broken manifest stops nothing, neither immediately nor when the daemon is killed and
// restarted. Once repaired and changed, it is applied.
func TestBrokenManifest(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]string{
		"syntax":        "apiVersion: v1\nkind: Pod\nmetadata: {name: p",
		"unknown field": strings.Replace(harness.SleepPod("p", "two"), "image:", "imege:", 1),
		"empty":         "",
		"only comments": "# nothing yet\n",
		"invalid":       strings.Replace(harness.SleepPod("p", "two"), "name: main", "name: Not_A_Name", 1),
	} {
		t.Run(name, func(t *testing.T) {
			harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
				n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
				n.MustStart()
				first := n.AwaitRunning("p")
				n.AwaitReady("p")
				n.WriteManifest("p.yaml", broken)
				n.AwaitManifestError("p.yaml")
				n.MustStillRun("p", first)
				n.Restart()
				n.AwaitManifestError("p.yaml")
				n.AwaitReady("p")
				n.MustStillRun("p", first)
				n.WriteManifest("p.yaml", harness.SleepPod("p", "three"))
				second := n.AwaitOther("p", first)
				if got := n.Exec(second, "sh", "-c", "echo $WORD"); got != "three" {
					t.Errorf("WORD is %q after the repair, want three", got)
				}
			})
		})
	}
}

// With a broken manifest and a lost container, the last good revision is started.
func TestBrokenManifestKeepsPodSupervised(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		first := n.AwaitRunning("p")
		n.WriteManifest("p.yaml", "nonsense: [")
		n.AwaitManifestError("p.yaml")
		n.Kill()
		n.RemovePods() // as after a reboot
		n.MustStart()
		second := n.AwaitOther("p", first)
		if got := n.Exec(second, "sh", "-c", "echo $WORD"); got != "one" {
			t.Errorf("WORD is %q, want one", got)
		}
	})
}

// An error in a file holds back all of its documents, and no other file.
func TestManifestFileIsAppliedAsAWhole(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("two.yaml", harness.SleepPod("a", "one")+"---\n"+harness.SleepPod("b", "one"))
		n.WriteManifest("other.yaml", harness.SleepPod("other", "one"))
		n.MustStart()
		a, b, other := n.AwaitRunning("a"), n.AwaitRunning("b"), n.AwaitRunning("other")
		n.WriteManifest("two.yaml", harness.SleepPod("a", "two")+
			"---\nkind: Pod\napiVersion: v1\nmetadata: {name: b}\nspec: {containers: []}\n")
		n.AwaitManifestError("two.yaml", "spec.containers")
		n.WriteManifest("other.yaml", harness.SleepPod("other", "two"))
		n.AwaitOther("other", other)
		n.MustStillRun("a", a)
		n.MustStillRun("b", b)
	})
}

// A directory that is replaced by another one, as configuration tools do, is followed.
func TestManifestDirReplaced(t *testing.T) {
	t.Parallel()
	replace := map[string]func(t *testing.T, n *harness.Node, next string){
		"symlink": func(t *testing.T, n *harness.Node, next string) {
			tmp := n.Manifests + ".new"
			if err := errors.Join(os.Symlink(next, tmp), os.Rename(tmp, n.Manifests)); err != nil {
				t.Fatal(err)
			}
		},
		"rename": func(t *testing.T, n *harness.Node, next string) {
			if err := errors.Join(os.Rename(n.Manifests, n.Manifests+".old"), os.Rename(next, n.Manifests)); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, do := range replace {
		t.Run(name, func(t *testing.T) {
			harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
				if name == "symlink" {
					old := n.Manifests + ".1"
					if err := errors.Join(os.Rename(n.Manifests, old), os.Symlink(old, n.Manifests)); err != nil {
						t.Fatal(err)
					}
				}
				n.WriteManifest("stays.yaml", harness.SleepPod("stays", "one"))
				n.WriteManifest("changes.yaml", harness.SleepPod("changes", "one"))
				n.WriteManifest("goes.yaml", harness.SleepPod("goes", "one"))
				n.MustStart()
				stays, changes := n.AwaitRunning("stays"), n.AwaitRunning("changes")
				n.AwaitRunning("goes")
				next := n.Manifests + ".2"
				harness.WriteAll(t, next, map[string]string{
					"stays.yaml":   harness.SleepPod("stays", "one"),
					"changes.yaml": harness.SleepPod("changes", "two"),
					"comes.yaml":   harness.SleepPod("comes", "one"),
				})
				do(t, n, next)
				n.AwaitOther("changes", changes)
				n.AwaitRunning("comes")
				n.AwaitGone("goes")
				n.MustStillRun("stays", stays)
				// The new directory is watched like the previous one.
				n.WriteManifest("later.yaml", harness.SleepPod("later", "one"))
				n.AwaitRunning("later")
			})
		})
	}
}

// The layout of a ConfigMap volume: files are links through ..data, which is swapped
// atomically.
func TestConfigMapLayout(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		harness.WriteAll(t, filepath.Join(n.Manifests, "..1"), map[string]string{"p.yaml": harness.SleepPod("p", "one")})
		if err := errors.Join(
			os.Symlink("..1", filepath.Join(n.Manifests, "..data")),
			os.Symlink("..data/p.yaml", filepath.Join(n.Manifests, "p.yaml")),
		); err != nil {
			t.Fatal(err)
		}
		n.MustStart()
		first := n.AwaitRunning("p")
		harness.WriteAll(t, filepath.Join(n.Manifests, "..2"), map[string]string{"p.yaml": harness.SleepPod("p", "two")})
		tmp := filepath.Join(n.Manifests, "..data_tmp")
		if err := errors.Join(os.Symlink("..2", tmp), os.Rename(tmp, filepath.Join(n.Manifests, "..data"))); err != nil {
			t.Fatal(err)
		}
		n.AwaitOther("p", first)
	})
}

// A removed directory stops nothing. When it is back, the pods whose manifests are missing are
// removed.
func TestManifestDirRemoved(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("a.yaml", harness.SleepPod("a", "one"))
		n.WriteManifest("b.yaml", harness.SleepPod("b", "one"))
		n.MustStart()
		a, b := n.AwaitRunning("a"), n.AwaitRunning("b")
		n.AwaitReady("a")
		n.AwaitReady("b")
		away := n.Manifests + ".away"
		if err := os.Rename(n.Manifests, away); err != nil {
			t.Fatal(err)
		}
		n.AwaitManifestError(`"fault"`)
		n.Restart()
		n.AwaitManifestError(`"fault"`)
		n.MustStillRun("a", a)
		n.MustStillRun("b", b)
		if err := errors.Join(os.Remove(filepath.Join(away, "b.yaml")), os.Rename(away, n.Manifests)); err != nil {
			t.Fatal(err)
		}
		n.AwaitGone("b")
		n.MustStillRun("a", a)
	})
}

// Unmounting a file system leaves an empty directory, which stops nothing either.
func TestManifestDirUnmounted(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		disk := n.Manifests + ".disk"
		harness.WriteAll(t, disk, map[string]string{"a.yaml": harness.SleepPod("a", "one"),
			"b.yaml": harness.SleepPod("b", "one")})
		mount := func() {
			if err := unix.Mount(disk, n.Manifests, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
		}
		unmount := func() {
			if err := unix.Unmount(n.Manifests, unix.MNT_DETACH); err != nil {
				t.Fatal(err)
			}
		}
		n.Args = []string{"--file-check-frequency", "1s"} // an unmount causes no notification
		mount()
		n.MustStart()
		a, b := n.AwaitRunning("a"), n.AwaitRunning("b")
		n.AwaitReady("a")
		n.AwaitReady("b")
		unmount()
		n.AwaitManifestError(`"fault"`)
		n.MustStillRun("a", a)
		n.MustStillRun("b", b)
		n.Restart()
		n.AwaitReady("a")
		n.MustStillRun("a", a)
		n.MustStillRun("b", b)
		if err := os.Remove(filepath.Join(disk, "b.yaml")); err != nil {
			t.Fatal(err)
		}
		mount()
		defer unmount()
		n.AwaitGone("b")
		n.MustStillRun("a", a)
	})
}

// Temporary files of editors are not manifests.
func TestOnlyManifestsAreRead(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		for _, name := range []string{"p.yaml~", ".p.yaml.swp", "p.yaml.bak", "#p.yaml#", ".hidden.yaml", "p.txt", "4913"} {
			n.WriteManifest(name, harness.SleepPod("dropping", name))
		}
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		n.AwaitRunning("p")
		pods, err := n.Pods(t.Context())
		if err != nil || len(pods) != 1 {
			t.Fatalf("/pods has %v (%v), want only p", harness.Keys(pods), err)
		}
	})
}

// Of two manifests with one name the running pod stays, across restarts too, and the other
// starts when its manifest is removed.
func TestDuplicateName(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("m.yaml", harness.SleepPod("p", "owner"))
		n.MustStart()
		owner := n.AwaitRunning("p")
		n.AwaitReady("p")
		n.WriteManifest("a.yaml", harness.SleepPod("p", "second"))
		n.AwaitManifestError("a.yaml", "m.yaml", `"faults"`)
		n.MustStillRun("p", owner)
		n.Restart()
		n.AwaitManifestError("a.yaml", `"faults"`)
		n.MustStillRun("p", owner)
		n.RemoveManifest("m.yaml")
		second := n.AwaitOther("p", owner)
		if got := n.Exec(second, "sh", "-c", "echo $WORD"); got != "second" {
			t.Errorf("WORD is %q, want second", got)
		}
	})
}

// manifestServer is an HTTP server of a manifest that can fail in several ways.
type manifestServer struct {
	*httptest.Server
	mu   sync.Mutex
	code int
	body string
}

func newManifestServer(t *testing.T, body string) *manifestServer {
	w := &manifestServer{code: http.StatusOK, body: body}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(r http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		r.WriteHeader(w.code)
		_, _ = r.Write([]byte(w.body))
	}))
	// The port stays free when the server is closed, until it is used again.
	l, err := net.Listen("tcp", harness.FreeAddress())
	if err != nil {
		t.Fatal(err)
	}
	w.Listener.Close()
	w.Listener = l
	w.Start()
	t.Cleanup(w.Close)
	return w
}

func (w *manifestServer) respond(code int, body string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.code, w.body = code, body
}

func TestURL(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		w := newManifestServer(t, harness.SleepPod("p", "one"))
		n.Args = []string{"--manifest-url", w.URL, "--http-check-frequency", "200ms"}
		n.MustStart()
		first := n.AwaitRunning("p")
		n.AwaitReady("p")

		for name, bad := range map[string]func(){
			"server error":       func() { w.respond(http.StatusInternalServerError, "down") },
			"not a manifest":     func() { w.respond(http.StatusOK, "<html>not found</html>") },
			"empty response":     func() { w.respond(http.StatusOK, "") },
			"truncated manifest": func() { w.respond(http.StatusOK, harness.SleepPod("p", "two")[:60]) },
		} {
			bad()
			t.Log("the server responds with", name)
			n.AwaitManifestError(`"fault`)
			n.MustStillRun("p", first)
			w.respond(http.StatusOK, harness.SleepPod("p", "one"))
			n.Await("the error is cleared", func() error {
				body, err := n.Get(t.Context(), "/podstead/v1/manifests")
				if err != nil || strings.Contains(string(body), `"fault`) {
					return fmt.Errorf("%s, %v", body, err)
				}
				return nil
			})
			n.MustStillRun("p", first)
		}

		w.respond(http.StatusOK, harness.SleepPod("p", "two"))
		second := n.AwaitOther("p", first)

		// If the URL does not respond at boot, its pods are started from the checkpoint.
		n.Kill()
		addr := w.Listener.Addr().String()
		w.Close()
		n.MustStart()
		n.AwaitReady("p")
		n.MustStillRun("p", second)
		n.Kill()
		n.RemovePods()
		n.MustStart()
		third := n.AwaitOther("p", second)

		// An empty list is a valid set without the pod.
		back := serveAt(t, addr, "apiVersion: v1\nkind: PodList\nitems: []\n")
		defer back.Close()
		n.AwaitGone("p")
		if harness.ProcessExists(third.Pid) {
			t.Errorf("pid %d still runs", third.Pid)
		}
	})
}

func serveAt(t *testing.T, addr, body string) *http.Server {
	t.Helper()
	s := &http.Server{Addr: addr, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(body))
	})}
	go func() { _ = s.ListenAndServe() }()
	return s
}

// A file system without a valid manifest over the manifest directory, or a file in its place,
// ends no pod, also over a restart.
func TestReplacedManifestDirectory(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		first := n.AwaitRunning("p")
		n.AwaitReady("p")
		if err := unix.Mount("tmpfs", n.Manifests, "tmpfs", 0, "size=1m"); err != nil {
			t.Fatal(err)
		}
		unmount := func() { _ = unix.Unmount(n.Manifests, unix.MNT_DETACH) }
		t.Cleanup(unmount)
		n.WriteManifest("q.yaml", "nonsense: [")
		n.AwaitManifestError("was replaced by a directory without a valid manifest")
		n.Restart()
		n.AwaitReady("p")
		n.MustStillRun("p", first)
		unmount()
		aside := n.Manifests + "-aside"
		if err := errors.Join(os.Rename(n.Manifests, aside), os.WriteFile(n.Manifests, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		n.AwaitManifestError("was a directory of manifests and is now a file")
		n.Restart()
		n.AwaitReady("p")
		n.MustStillRun("p", first)
		if err := errors.Join(os.Remove(n.Manifests), os.Rename(aside, n.Manifests)); err != nil {
			t.Fatal(err)
		}
		n.RemoveManifest("p.yaml")
		n.AwaitGone("p")
	})
}
