package e2e

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
)

// A broken manifest stops nothing, neither immediately nor when the daemon is killed and
// restarted. Once repaired and changed, it is applied.
func TestBrokenManifest(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]string{
		"syntax":        "apiVersion: v1\nkind: Pod\nmetadata: {name: p",
		"unknown field": strings.Replace(sleepPod("p", "two"), "image:", "imege:", 1),
		"empty":         "",
		"only comments": "# nothing yet\n",
		"invalid":       strings.Replace(sleepPod("p", "two"), "name: main", "name: Not_A_Name", 1),
	} {
		t.Run(name, func(t *testing.T) {
			onEachRuntime(t, func(t *testing.T, n *node) {
				n.writeManifest("p.yaml", sleepPod("p", "one"))
				n.start()
				first := n.awaitRunning("p")
				n.awaitReady("p")
				n.writeManifest("p.yaml", broken)
				n.awaitManifestError("p.yaml")
				n.mustStillRun("p", first)
				n.restart()
				n.awaitManifestError("p.yaml")
				n.awaitReady("p")
				n.mustStillRun("p", first)
				n.writeManifest("p.yaml", sleepPod("p", "three"))
				second := n.awaitOther("p", first)
				if got := n.exec(second, "sh", "-c", "echo $WORD"); got != "three" {
					t.Errorf("WORD is %q after the repair, want three", got)
				}
			})
		})
	}
}

// With a broken manifest and a lost container, the last good revision is started.
func TestBrokenManifestKeepsPodSupervised(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.start()
		first := n.awaitRunning("p")
		n.writeManifest("p.yaml", "nonsense: [")
		n.awaitManifestError("p.yaml")
		n.Kill()
		n.removePods() // as after a reboot
		n.start()
		second := n.awaitOther("p", first)
		if got := n.exec(second, "sh", "-c", "echo $WORD"); got != "one" {
			t.Errorf("WORD is %q, want one", got)
		}
	})
}

// An error in a file holds back all of its documents, and no other file.
func TestManifestFileIsAppliedAsAWhole(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("two.yaml", sleepPod("a", "one")+"---\n"+sleepPod("b", "one"))
		n.writeManifest("other.yaml", sleepPod("other", "one"))
		n.start()
		a, b, other := n.awaitRunning("a"), n.awaitRunning("b"), n.awaitRunning("other")
		n.writeManifest("two.yaml", sleepPod("a", "two")+"---\nkind: Pod\napiVersion: v1\nmetadata: {name: b}\nspec: {containers: []}\n")
		n.awaitManifestError("two.yaml", "spec.containers")
		n.writeManifest("other.yaml", sleepPod("other", "two"))
		n.awaitOther("other", other)
		n.mustStillRun("a", a)
		n.mustStillRun("b", b)
	})
}

// A directory that is replaced by another one, as configuration tools do, is followed.
func TestManifestDirReplaced(t *testing.T) {
	t.Parallel()
	replace := map[string]func(t *testing.T, n *node, next string){
		"symlink": func(t *testing.T, n *node, next string) {
			tmp := n.Manifests + ".new"
			if err := errors.Join(os.Symlink(next, tmp), os.Rename(tmp, n.Manifests)); err != nil {
				t.Fatal(err)
			}
		},
		"rename": func(t *testing.T, n *node, next string) {
			if err := errors.Join(os.Rename(n.Manifests, n.Manifests+".old"), os.Rename(next, n.Manifests)); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, do := range replace {
		t.Run(name, func(t *testing.T) {
			onEachRuntime(t, func(t *testing.T, n *node) {
				if name == "symlink" {
					old := n.Manifests + ".1"
					if err := errors.Join(os.Rename(n.Manifests, old), os.Symlink(old, n.Manifests)); err != nil {
						t.Fatal(err)
					}
				}
				n.writeManifest("stays.yaml", sleepPod("stays", "one"))
				n.writeManifest("changes.yaml", sleepPod("changes", "one"))
				n.writeManifest("goes.yaml", sleepPod("goes", "one"))
				n.start()
				stays, changes := n.awaitRunning("stays"), n.awaitRunning("changes")
				n.awaitRunning("goes")
				next := n.Manifests + ".2"
				writeAll(t, next, map[string]string{
					"stays.yaml":   sleepPod("stays", "one"),
					"changes.yaml": sleepPod("changes", "two"),
					"comes.yaml":   sleepPod("comes", "one"),
				})
				do(t, n, next)
				n.awaitOther("changes", changes)
				n.awaitRunning("comes")
				n.awaitGone("goes")
				n.mustStillRun("stays", stays)
				// The new directory is watched like the previous one.
				n.writeManifest("later.yaml", sleepPod("later", "one"))
				n.awaitRunning("later")
			})
		})
	}
}

// The layout of a ConfigMap volume: files are links through ..data, which is swapped
// atomically.
func TestConfigMapLayout(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		writeAll(t, filepath.Join(n.Manifests, "..1"), map[string]string{"p.yaml": sleepPod("p", "one")})
		if err := errors.Join(
			os.Symlink("..1", filepath.Join(n.Manifests, "..data")),
			os.Symlink("..data/p.yaml", filepath.Join(n.Manifests, "p.yaml")),
		); err != nil {
			t.Fatal(err)
		}
		n.start()
		first := n.awaitRunning("p")
		writeAll(t, filepath.Join(n.Manifests, "..2"), map[string]string{"p.yaml": sleepPod("p", "two")})
		tmp := filepath.Join(n.Manifests, "..data_tmp")
		if err := errors.Join(os.Symlink("..2", tmp), os.Rename(tmp, filepath.Join(n.Manifests, "..data"))); err != nil {
			t.Fatal(err)
		}
		n.awaitOther("p", first)
	})
}

// A removed directory stops nothing. When it is back, the pods whose manifests are missing are
// removed.
func TestManifestDirRemoved(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("a.yaml", sleepPod("a", "one"))
		n.writeManifest("b.yaml", sleepPod("b", "one"))
		n.start()
		a, b := n.awaitRunning("a"), n.awaitRunning("b")
		n.awaitReady("a")
		n.awaitReady("b")
		away := n.Manifests + ".away"
		if err := os.Rename(n.Manifests, away); err != nil {
			t.Fatal(err)
		}
		n.awaitManifestError(`"fault"`)
		n.restart()
		n.awaitManifestError(`"fault"`)
		n.mustStillRun("a", a)
		n.mustStillRun("b", b)
		if err := errors.Join(os.Remove(filepath.Join(away, "b.yaml")), os.Rename(away, n.Manifests)); err != nil {
			t.Fatal(err)
		}
		n.awaitGone("b")
		n.mustStillRun("a", a)
	})
}

// Unmounting a file system leaves an empty directory, which stops nothing either.
func TestManifestDirUnmounted(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		disk := n.Manifests + ".disk"
		writeAll(t, disk, map[string]string{"a.yaml": sleepPod("a", "one"), "b.yaml": sleepPod("b", "one")})
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
		n.start()
		a, b := n.awaitRunning("a"), n.awaitRunning("b")
		n.awaitReady("a")
		n.awaitReady("b")
		unmount()
		n.awaitManifestError(`"fault"`)
		n.mustStillRun("a", a)
		n.mustStillRun("b", b)
		n.restart()
		n.awaitReady("a")
		n.mustStillRun("a", a)
		n.mustStillRun("b", b)
		if err := os.Remove(filepath.Join(disk, "b.yaml")); err != nil {
			t.Fatal(err)
		}
		mount()
		defer unmount()
		n.awaitGone("b")
		n.mustStillRun("a", a)
	})
}

// Temporary files of editors are not manifests.
func TestOnlyManifestsAreRead(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		for _, name := range []string{"p.yaml~", ".p.yaml.swp", "p.yaml.bak", "#p.yaml#", ".hidden.yaml", "p.txt", "4913"} {
			n.writeManifest(name, sleepPod("dropping", name))
		}
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.start()
		n.awaitRunning("p")
		pods, err := n.Pods(t.Context())
		if err != nil || len(pods) != 1 {
			t.Fatalf("/pods has %v (%v), want only p", keys(pods), err)
		}
	})
}

// Of two manifests with one name the running pod stays, across restarts too, and the other
// starts when its manifest is removed.
func TestDuplicateName(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("m.yaml", sleepPod("p", "owner"))
		n.start()
		owner := n.awaitRunning("p")
		n.awaitReady("p")
		n.writeManifest("a.yaml", sleepPod("p", "second"))
		n.awaitManifestError("a.yaml", "m.yaml", `"faults"`)
		n.mustStillRun("p", owner)
		n.restart()
		n.awaitManifestError("a.yaml", `"faults"`)
		n.mustStillRun("p", owner)
		n.removeManifest("m.yaml")
		second := n.awaitOther("p", owner)
		if got := n.exec(second, "sh", "-c", "echo $WORD"); got != "second" {
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
	l, err := net.Listen("tcp", freeAddress())
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
	onEachRuntime(t, func(t *testing.T, n *node) {
		w := newManifestServer(t, sleepPod("p", "one"))
		n.Args = []string{"--manifest-url", w.URL, "--http-check-frequency", "200ms"}
		n.start()
		first := n.awaitRunning("p")
		n.awaitReady("p")

		for name, bad := range map[string]func(){
			"server error":       func() { w.respond(http.StatusInternalServerError, "down") },
			"not a manifest":     func() { w.respond(http.StatusOK, "<html>not found</html>") },
			"empty response":     func() { w.respond(http.StatusOK, "") },
			"truncated manifest": func() { w.respond(http.StatusOK, sleepPod("p", "two")[:60]) },
		} {
			bad()
			t.Log("the server responds with", name)
			n.awaitManifestError(`"fault`)
			n.mustStillRun("p", first)
			w.respond(http.StatusOK, sleepPod("p", "one"))
			n.await("the error is cleared", func() error {
				body, err := n.Get(t.Context(), "/podstead/v1/manifests")
				if err != nil || strings.Contains(string(body), `"fault`) {
					return fmt.Errorf("%s, %v", body, err)
				}
				return nil
			})
			n.mustStillRun("p", first)
		}

		w.respond(http.StatusOK, sleepPod("p", "two"))
		second := n.awaitOther("p", first)

		// If the URL does not respond at boot, its pods are started from the checkpoint.
		n.Kill()
		addr := w.Listener.Addr().String()
		w.Close()
		n.start()
		n.awaitReady("p")
		n.mustStillRun("p", second)
		n.Kill()
		n.removePods()
		n.start()
		third := n.awaitOther("p", second)

		// An empty list is a valid set without the pod.
		back := serveAt(t, addr, "apiVersion: v1\nkind: PodList\nitems: []\n")
		defer back.Close()
		n.awaitGone("p")
		if processExists(third.Pid) {
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

// writeAll creates a directory and writes files into it, keyed by name.
func writeAll(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A file system without a valid manifest over the manifest directory, or a file in its place,
// ends no pod, also over a restart.
func TestReplacedManifestDirectory(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.start()
		first := n.awaitRunning("p")
		n.awaitReady("p")
		if err := unix.Mount("tmpfs", n.Manifests, "tmpfs", 0, "size=1m"); err != nil {
			t.Fatal(err)
		}
		unmount := func() { _ = unix.Unmount(n.Manifests, unix.MNT_DETACH) }
		t.Cleanup(unmount)
		n.writeManifest("q.yaml", "nonsense: [")
		n.awaitManifestError("was replaced by a directory without a valid manifest")
		n.restart()
		n.awaitReady("p")
		n.mustStillRun("p", first)
		unmount()
		aside := n.Manifests + "-aside"
		if err := errors.Join(os.Rename(n.Manifests, aside), os.WriteFile(n.Manifests, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		n.awaitManifestError("was a directory of manifests and is now a file")
		n.restart()
		n.awaitReady("p")
		n.mustStillRun("p", first)
		if err := errors.Join(os.Remove(n.Manifests), os.Rename(aside, n.Manifests)); err != nil {
			t.Fatal(err)
		}
		n.removeManifest("p.yaml")
		n.awaitGone("p")
	})
}
