package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// editor makes a shell script the editor of the next commands.
func editor(t *testing.T, script string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBE_EDITOR", path)
}

func TestEdit(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "web.yaml"),
		"# head\n---\n# web\n"+appliedPod+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: site}\n")
	d := manifestDaemon(t, dir, "")
	run := func(args ...string) (string, error) {
		out, _, err := execute(t, "", append([]string{"edit", "--api-socket", d.socket}, args...)...)
		return out, err
	}
	before := entries(t, dir)
	editor(t, "true")
	if out, err := run("web"); err != nil || out != "Edit cancelled, no changes made.\n" || entries(t, dir) != before {
		t.Errorf("without a change: %v, %s", err, out)
	}
	editor(t, "exit 3")
	if _, err := run("web"); err == nil || !strings.Contains(err.Error(), "exit status 3") || entries(t, dir) != before {
		t.Errorf("a failed editor: %v", err)
	}
	// The first text is invalid. The editor opens again and shows why.
	t.Setenv("EDITED", filepath.Join(t.TempDir(), "edited"))
	editor(t,
		`if [ -e "$EDITED" ]; then cp "$1" "$EDITED"; sed -i 's/^    imge:/    image:/; 1i# why' "$1"; else touch "$EDITED"; sed -i 's/image: .*/imge: registry.example\/web:2/' "$1"; fi`)
	out, err := run("pod/web-n1")
	if err != nil || !strings.HasSuffix(out, "pod/web configured in "+file+"\n") {
		t.Errorf("%v, %s", err, out)
	}
	if shown, _ := os.ReadFile(os.Getenv("EDITED")); !strings.HasPrefix(string(shown),
		"# podstead: the edited text:7: ") || !strings.Contains(string(shown), "imge") {
		t.Errorf("the editor showed\n%s", shown)
	}
	want := "# head\n---\n# web\n# why\n" + strings.Replace(appliedPod, "web:1", "web:2", 1) +
		"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: site}\n"
	if got, _ := os.ReadFile(file); string(got) != want {
		t.Errorf("the file is\n%s\nwant\n%s", got, want)
	}
	// Invalid and saved without another change: an error, and the text is kept.
	before = entries(t, dir)
	t.Setenv("TMPDIR", t.TempDir())
	editor(t, `sed -i 's/name: site/name: other/' "$1"`)
	out, err = run("cm/site")
	if Code(err) != ExitFailed || !strings.Contains(err.Error(), "the object is now ConfigMap") ||
		entries(t, dir) != before {
		t.Fatalf("another name: %v, %s", err, out)
	}
	_, kept, _ := strings.Cut(err.Error(), "the edited text is kept in ")
	if text, err := os.ReadFile(kept); err != nil || !strings.Contains(string(text), "name: other") {
		t.Errorf("the text is not kept: %v, %s", err, text)
	}
}

// Whatever goes wrong after the user has written something, the text is kept, and its path is said.
func TestEditKeepsTheText(t *testing.T) {
	for what, c := range map[string]struct{ script, want string }{
		"another writer was faster": {`echo "# mine" >>"$MANIFEST"`, "has changed since it was read"},
		"a signed file":             {`touch "$MANIFEST.sig"`, "is signed"},
		"the editor fails":          {`exit 3`, "exit status 3"},
		"the text is too large":     {`head -c 20000000 /dev/zero | tr '\0' '#' >>"$1"`, "is larger than"},
	} {
		t.Run(what, func(t *testing.T) {
			dir, kept := t.TempDir(), t.TempDir()
			t.Setenv("TMPDIR", kept)
			file := write(t, filepath.Join(dir, "web.yaml"),
				appliedPod+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: site}\n")
			t.Setenv("MANIFEST", file)
			d := manifestDaemon(t, dir, "")
			editor(t, `sed -i 's/web:1/web:2/' "$1"; `+c.script)
			_, _, err := execute(t, "", "edit", "web", "--api-socket", d.socket)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
				return
			}
			_, path, _ := strings.Cut(err.Error(), "the edited text is kept in ")
			if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "web:2") ||
				filepath.Dir(path) != kept {
				t.Errorf("the text is not kept in %q: %v", path, err)
			}
		})
	}
}

// What is wrong with another document of the file was printed, and the path is too. Nothing stays without an error, or
// if the user has written nothing.
func TestFilesOfEdits(t *testing.T) {
	dir, kept := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", kept)
	write(t, filepath.Join(dir, "web.yaml"),
		appliedPod+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: site}\ndata: {k: [1]}\n")
	d := manifestDaemon(t, dir, "")
	editor(t, `sed -i 's/web:1/web:2/' "$1"`)
	_, stderr, err := execute(t, "", "edit", "web", "--api-socket", d.socket)
	if Code(err) != ExitFailed || !strings.Contains(stderr, "the edited text is kept in "+kept) {
		t.Errorf("%v, %s", err, stderr)
	}
	_, path, _ := strings.Cut(stderr, "the edited text is kept in ")
	if err := os.Remove(strings.TrimSpace(path)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "web.yaml"), appliedPod)
	for _, script := range []string{"true", "exit 3", `: >"$1"`, `rm "$1"; exit 1`, `sed -i 's/web:1/web:2/' "$1"`} {
		editor(t, script)
		_, _, _ = execute(t, "", "edit", "web", "--api-socket", d.socket)
		if left := entries(t, kept); len(left) > 0 {
			t.Errorf("%s: left %v", script, left)
		}
	}
}

func TestSetImage(t *testing.T) {
	dir := t.TempDir()
	const text = `apiVersion: v1
kind: Pod
metadata:
  name: web # the shop
spec:
  initContainers:
  - {name: setup, image: "setup:1"}
  containers:
  # The server
  - name: main
    image: registry.example/web:1 # pinned
  - name: side
    image: side:1
`
	file := write(t, filepath.Join(dir, "web.yaml"), text)
	d := manifestDaemon(t, dir, "")
	run := func(args ...string) (string, error) {
		out, _, err := execute(t, "", append([]string{"set", "image", "--api-socket", d.socket}, args...)...)
		return out, err
	}
	if out, err := run("pod/web", "main=registry.example/web:2"); err != nil ||
		!strings.Contains(out, "+    image: registry.example/web:2 # pinned\n") {
		t.Errorf("%v, %s", err, out)
	}
	if got, _ := os.ReadFile(file); string(got) != strings.Replace(text, "web:1", "web:2", 1) {
		t.Errorf("the file is\n%s", got)
	}
	if out, err := run("pod", "web-n1", "*=all:3", "side=side:2", "--dry-run=client"); err != nil ||
		!strings.Contains(out, "+  - image: all:3\n") && !strings.Contains(out, "all:3") ||
		!strings.Contains(out, "+    image: side:2\n") {
		t.Errorf("all: %v, %s", err, out)
	}
	for want, args := range map[string][]string{
		`container "nosuch" not found; containers: setup, main, side`: {"web", "nosuch=x"},
		"must be CONTAINER=IMAGE":                                     {"web", "main"},
		`"Web:1:2" is not a valid image`:                              {"web", "main=Web:1:2"},
		"Pod default/remote comes from http://x/pods":                 {"remote", "main=x"},
		"Pod default/none is in no manifest":                          {"none", "main=x"},
	} {
		if _, err := run(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

func TestCreateRefusesWhatExists(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "x.yaml"), appliedPod)
	d := manifestDaemon(t, dir, "")
	if _, _, err := execute(t, appliedPod, "create", "-f", "-", "--api-socket", d.socket); err == nil ||
		!strings.Contains(err.Error(), "Pod default/web exists in "+file) {
		t.Errorf("got %v", err)
	}
	out, _, err := execute(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "create", "-f", "-",
		"--api-socket", d.socket)
	if err != nil || out != "configmap/a created in "+filepath.Join(dir, "a-configmap.yaml")+"\n" {
		t.Errorf("%v, %s", err, out)
	}
}
