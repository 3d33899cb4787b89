package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A broken manifest ends nothing, neither at once nor when the daemon is killed and
// started over it; repaired and changed, it is applied.
func TestBrokenManifest(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]string{
		"syntax":        "apiVersion: v1\nkind: Pod\nmetadata: {name: p",
		"unknown field": strings.Replace(sleeper("p", "two"), "image:", "imege:", 1),
		"empty":         "",
		"comments":      "# nothing yet\n",
		"invalid":       strings.Replace(sleeper("p", "two"), "name: main", "name: Not_A_Name", 1),
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, n *node) {
				n.put("p.yaml", sleeper("p", "one"))
				n.start()
				first := n.awaitRunning("p")
				n.awaitReady("p")
				n.put("p.yaml", broken)
				n.awaitFault("p.yaml")
				n.mustBe("p", first)
				n.restart()
				n.awaitFault("p.yaml")
				n.awaitReady("p")
				n.mustBe("p", first)
				n.put("p.yaml", sleeper("p", "three"))
				second := n.awaitOther("p", first)
				if got := n.exec(second, "sh", "-c", "echo $WORD"); got != "three" {
					t.Errorf("WORD is %q after the repair, want three", got)
				}
			})
		})
	}
}

// A broken file and the container gone: the last good revision is started.
func TestBrokenManifestStillSupervises(t *testing.T) {
	each(t, func(t *testing.T, n *node) {
		n.put("p.yaml", sleeper("p", "one"))
		n.start()
		first := n.awaitRunning("p")
		n.put("p.yaml", "nonsense: [")
		n.awaitFault("p.yaml")
		n.Kill()
		n.removePods() // as a reboot does
		n.start()
		second := n.awaitOther("p", first)
		if got := n.exec(second, "sh", "-c", "echo $WORD"); got != "one" {
			t.Errorf("WORD is %q, want one", got)
		}
	})
}

// One fault in a file holds back all of its documents, and of no other file.
func TestFileIsTheUnit(t *testing.T) {
	each(t, func(t *testing.T, n *node) {
		n.put("two.yaml", sleeper("a", "one")+"---\n"+sleeper("b", "one"))
		n.put("other.yaml", sleeper("other", "one"))
		n.start()
		a, b, other := n.awaitRunning("a"), n.awaitRunning("b"), n.awaitRunning("other")
		n.put("two.yaml", sleeper("a", "two")+"---\nkind: Pod\napiVersion: v1\nmetadata: {name: b}\nspec: {containers: []}\n")
		n.awaitFault("two.yaml", "spec.containers")
		n.put("other.yaml", sleeper("other", "two"))
		n.awaitOther("other", other)
		n.mustBe("a", a)
		n.mustBe("b", b)
	})
}

// A directory that is replaced by another, as configuration tools do, is followed.
func TestFolderSwapped(t *testing.T) {
	t.Parallel()
	swap := map[string]func(t *testing.T, n *node, next string){
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
	for name, do := range swap {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, n *node) {
				if name == "symlink" {
					old := n.Manifests + ".1"
					if err := errors.Join(os.Rename(n.Manifests, old), os.Symlink(old, n.Manifests)); err != nil {
						t.Fatal(err)
					}
				}
				n.put("stays.yaml", sleeper("stays", "one"))
				n.put("changes.yaml", sleeper("changes", "one"))
				n.put("goes.yaml", sleeper("goes", "one"))
				n.start()
				stays, changes := n.awaitRunning("stays"), n.awaitRunning("changes")
				n.awaitRunning("goes")
				next := n.Manifests + ".2"
				writeAll(t, next, map[string]string{
					"stays.yaml":   sleeper("stays", "one"),
					"changes.yaml": sleeper("changes", "two"),
					"comes.yaml":   sleeper("comes", "one"),
				})
				do(t, n, next)
				n.awaitOther("changes", changes)
				n.awaitRunning("comes")
				n.awaitGone("goes")
				n.mustBe("stays", stays)
				// The new directory is watched as the old one was.
				n.put("later.yaml", sleeper("later", "one"))
				n.awaitRunning("later")
			})
		})
	}
}

// The layout of a ConfigMap volume: files are links through ..data, which is swapped.
func TestConfigMapLayout(t *testing.T) {
	each(t, func(t *testing.T, n *node) {
		writeAll(t, filepath.Join(n.Manifests, "..1"), map[string]string{"p.yaml": sleeper("p", "one")})
		if err := errors.Join(
			os.Symlink("..1", filepath.Join(n.Manifests, "..data")),
			os.Symlink("..data/p.yaml", filepath.Join(n.Manifests, "p.yaml")),
		); err != nil {
			t.Fatal(err)
		}
		n.start()
		first := n.awaitRunning("p")
		writeAll(t, filepath.Join(n.Manifests, "..2"), map[string]string{"p.yaml": sleeper("p", "two")})
		tmp := filepath.Join(n.Manifests, "..data_tmp")
		if err := errors.Join(os.Symlink("..2", tmp), os.Rename(tmp, filepath.Join(n.Manifests, "..data"))); err != nil {
			t.Fatal(err)
		}
		n.awaitOther("p", first)
	})
}

// A directory that disappears ends nothing; when it is back, the pods that it lacks end.
func TestFolderGone(t *testing.T) {
	each(t, func(t *testing.T, n *node) {
		n.put("a.yaml", sleeper("a", "one"))
		n.put("b.yaml", sleeper("b", "one"))
		n.start()
		a, b := n.awaitRunning("a"), n.awaitRunning("b")
		n.awaitReady("a")
		n.awaitReady("b")
		away := n.Manifests + ".away"
		if err := os.Rename(n.Manifests, away); err != nil {
			t.Fatal(err)
		}
		n.awaitFault(`"fault"`)
		n.restart()
		n.awaitFault(`"fault"`)
		n.mustBe("a", a)
		n.mustBe("b", b)
		if err := errors.Join(os.Remove(filepath.Join(away, "b.yaml")), os.Rename(away, n.Manifests)); err != nil {
			t.Fatal(err)
		}
		n.awaitGone("b")
		n.mustBe("a", a)
	})
}

// A directory on a file system that is unmounted leaves an empty directory behind, which
// ends nothing either.
func TestFolderUnmounted(t *testing.T) {
	each(t, func(t *testing.T, n *node) {
		disk := n.Manifests + ".disk"
		writeAll(t, disk, map[string]string{"a.yaml": sleeper("a", "one"), "b.yaml": sleeper("b", "one")})
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
		n.Args = []string{"--file-check-frequency", "1s"} // nothing notifies of an unmount
		mount()
		n.start()
		a, b := n.awaitRunning("a"), n.awaitRunning("b")
		n.awaitReady("a")
		n.awaitReady("b")
		unmount()
		n.awaitFault(`"fault"`)
		n.mustBe("a", a)
		n.mustBe("b", b)
		n.restart()
		n.awaitReady("a")
		n.mustBe("a", a)
		n.mustBe("b", b)
		if err := os.Remove(filepath.Join(disk, "b.yaml")); err != nil {
			t.Fatal(err)
		}
		mount()
		defer unmount()
		n.awaitGone("b")
		n.mustBe("a", a)
	})
}

// Editors' droppings are no manifests.
func TestOnlyManifestsAreRead(t *testing.T) {
	each(t, func(t *testing.T, n *node) {
		for _, name := range []string{"p.yaml~", ".p.yaml.swp", "p.yaml.bak", "#p.yaml#", ".hidden.yaml", "p.txt", "4913"} {
			n.put(name, sleeper("dropping", name))
		}
		n.put("p.yaml", sleeper("p", "one"))
		n.start()
		n.awaitRunning("p")
		pods, err := n.Pods(t.Context())
		if err != nil || len(pods) != 1 {
			t.Fatalf("/pods has %v (%v), want only p", keys(pods), err)
		}
	})
}

// Of two manifests with one name the running one stays, over restarts too, and
// the other takes over when it goes.
func TestDuplicateName(t *testing.T) {
	each(t, func(t *testing.T, n *node) {
		n.put("m.yaml", sleeper("p", "owner"))
		n.start()
		owner := n.awaitRunning("p")
		n.awaitReady("p")
		n.put("a.yaml", sleeper("p", "second"))
		n.awaitFault("a.yaml", "m.yaml", `"faults"`)
		n.mustBe("p", owner)
		n.restart()
		n.awaitFault("a.yaml", `"faults"`)
		n.mustBe("p", owner)
		n.drop("m.yaml")
		second := n.awaitOther("p", owner)
		if got := n.exec(second, "sh", "-c", "echo $WORD"); got != "second" {
			t.Errorf("WORD is %q, want second", got)
		}
	})
}

// web is an HTTP server of a manifest that can break in several ways.
type web struct {
	*httptest.Server
	mu   sync.Mutex
	code int
	body string
}

func newWeb(t *testing.T, body string) *web {
	w := &web{code: http.StatusOK, body: body}
	w.Server = httptest.NewServer(http.HandlerFunc(func(r http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		r.WriteHeader(w.code)
		_, _ = r.Write([]byte(w.body))
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *web) say(code int, body string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.code, w.body = code, body
}

func TestURL(t *testing.T) {
	each(t, func(t *testing.T, n *node) {
		w := newWeb(t, sleeper("p", "one"))
		n.Args = []string{"--manifest-url", w.URL, "--http-check-frequency", "200ms"}
		n.start()
		first := n.awaitRunning("p")
		n.awaitReady("p")

		for name, bad := range map[string]func(){
			"an error":   func() { w.say(http.StatusInternalServerError, "down") },
			"garbage":    func() { w.say(http.StatusOK, "<html>not found</html>") },
			"nothing":    func() { w.say(http.StatusOK, "") },
			"half a pod": func() { w.say(http.StatusOK, sleeper("p", "two")[:60]) },
		} {
			bad()
			t.Log("the server answers with", name)
			n.awaitFault(`"fault`)
			n.mustBe("p", first)
			w.say(http.StatusOK, sleeper("p", "one"))
			n.await("the fault is gone", func() error {
				body, err := n.Get(t.Context(), "/podstead/v1/manifests")
				if err != nil || strings.Contains(string(body), `"fault`) {
					return fmt.Errorf("%s, %v", body, err)
				}
				return nil
			})
			n.mustBe("p", first)
		}

		w.say(http.StatusOK, sleeper("p", "two"))
		second := n.awaitOther("p", first)

		// A URL that does not answer at boot is served from the checkpoint.
		n.Kill()
		addr := w.Listener.Addr().String()
		w.Close()
		n.start()
		n.awaitReady("p")
		n.mustBe("p", second)
		n.removePods()
		third := n.awaitOther("p", second)

		// An empty list is a well-formed set without the pod.
		back := newWebAt(t, addr, "apiVersion: v1\nkind: PodList\nitems: []\n")
		defer back.Close()
		n.awaitGone("p")
		if alive(third.Pid) {
			t.Errorf("pid %d still runs", third.Pid)
		}
	})
}

func newWebAt(t *testing.T, addr, body string) *http.Server {
	t.Helper()
	s := &http.Server{Addr: addr, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(body))
	})}
	go func() { _ = s.ListenAndServe() }()
	return s
}

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
