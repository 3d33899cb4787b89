package edit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podstead/podstead/manifest"
)

// in returns a directory with files, by name and content.
func in(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t *testing.T, path string) *Directory {
	t.Helper()
	d, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func documents(t *testing.T, text string) []Document {
	t.Helper()
	all, faults := Documents("-", []byte(text))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return all
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func pod(name, image string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  containers:\n  - name: main\n    image: " +
		image + "\n"
}

var web = manifest.ObjectRef{Kind: "Pod", Namespace: "default", Name: "web"}

func TestPutKeepsOtherDocumentsAndComments(t *testing.T) {
	const others = "# Who runs this\n\n# The database\n" + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n" +
		"# between\n---\n# The server\n"
	for name, c := range map[string]struct{ before, put, after string }{
		"replaced": {others + pod("web", "a:1") + "# end\n", pod("web", "a:2"),
			others + pod("web", "a:2") + "# end\n"},
		"with its own comment": {pod("web", "a:1"), "# mine\n" + pod("web", "a:2 # pinned"), pod("web", "a:2 # pinned")},
		"comments inside are kept": {
			"apiVersion: v1\nkind: Pod\nmetadata:\n  name: web # the name\nspec:\n  # one container\n  containers:\n  - name: " +
				"main\n    # updated by hand\n    image: a:1 # pinned\n    env:\n    - {name: A, value: x}\n\n  # at once\n  " +
				"terminationGracePeriodSeconds: 0\n",
			`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "a:2", "env": [{"name": "A", "value": "y"}]}], "terminationGracePeriodSeconds": 5}}`,
			"apiVersion: v1\nkind: Pod\nmetadata:\n  name: web # the name\n  labels:\n    app: web\nspec:\n  # one " +
				"container\n  containers:\n  - name: main\n    # updated by hand\n    image: a:2 # pinned\n    env:\n    - name: " +
				"A\n      value: \"y\"\n\n  # at once\n  terminationGracePeriodSeconds: 5\n",
		},
		"flow style": {"# c\n--- {apiVersion: v1, kind: Pod, metadata: {name: web}} # d\n",
			pod("web", "a:2"), "# c\n--- \n" + pod("web", "a:2")},
		"JSON stays JSON": {`{"kind": "Pod", "metadata": {"name": "web"}}` + "\n" +
			`{"kind": "Pod", "metadata": {"name": "b"}}`, "kind: Pod\nmetadata: {name: web, labels: {a: b}}\n",
			"{\n  \"kind\": \"Pod\",\n  \"metadata\": {\n    \"labels\": {\n      \"a\": \"b\"\n    },\n    \"name\": " +
				"\"web\"\n  }\n}\n" + `{"kind": "Pod", "metadata": {"name": "b"}}`},
		"same value in other words": {"# mine\n" + pod("web", "a:1 # pinned"),
			`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "main", "image": "a:1"}]}}`, "# mine\n" + pod("web", "a:1 # pinned")},
		"the last of an unended file": {"kind: ConfigMap\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {name: web}",
			"kind: Pod\nmetadata: {name: web, labels: {a: b}}\n",
			"kind: ConfigMap\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {name: web, labels: {a: b}}\n"},
		"broken documents are left": {pod("web", "a:1") + "---\na: [\n", pod("web", "a:2"),
			pod("web", "a:2") + "---\na: [\n"},
		"comment in a block scalar": {
			"kind: Pod\nmetadata:\n  name: web\n  annotations:\n    run: |\n      # first\n      go\n    x: \"1\" # one\n",
			"kind: Pod\nmetadata: {name: web, annotations: {run: \"# second\\ngo\\n\", x: \"2\"}}\n",
			"kind: Pod\nmetadata:\n  name: web\n  annotations:\n    run: |\n      # second\n      go\n    x: \"2\" # one\n"},
	} {
		dir := in(t, map[string]string{"x.yaml": c.before})
		d := read(t, dir)
		for _, doc := range documents(t, c.put) {
			if _, err := d.Write(doc, "new.yaml"); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if err := d.Commit(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := content(t, filepath.Join(dir, "x.yaml")); got != c.after {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.after)
		}
		if info, err := os.Stat(filepath.Join(dir, "x.yaml")); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v, mode %v", name, err, info.Mode())
		}
		if all, _ := os.ReadDir(dir); len(all) != 1 {
			t.Errorf("%s: left %v", name, all)
		}
	}
}

func TestNewObjectsGetAFile(t *testing.T) {
	dir := in(t, map[string]string{"old.yaml": "# a comment"})
	d := read(t, dir)
	for _, doc := range documents(t, "# The server\n"+pod("web", "a:1")+"---\nkind: Secret\nmetadata: {name: s}\n") {
		if _, err := d.Write(doc, "hello.yaml"); err != nil {
			t.Fatal(err)
		}
	}
	for _, doc := range documents(t, "kind: ConfigMap\nmetadata: {name: c}\n") {
		if _, err := d.Write(doc, "old.yaml"); err != nil {
			t.Fatal(err)
		}
	}
	for _, doc := range documents(t, "kind: ConfigMap\nmetadata: {name: d}\n") {
		if _, err := d.Write(doc, "d.json"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Write(doc, "d.txt"); err != nil {
			t.Errorf("an object that has a file needs no name: %v", err)
		}
	}
	if err := d.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"hello.yaml": "# The server\n" + pod("web", "a:1") + "---\nkind: Secret\nmetadata: {name: s}\n",
		"old.yaml":   "# a comment\nkind: ConfigMap\nmetadata: {name: c}\n",
		"d.json":     "{\n  \"kind\": \"ConfigMap\",\n  \"metadata\": {\n    \"name\": \"d\"\n  }\n}\n",
	} {
		if got := content(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "hello.yaml")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a file with a Secret: %v, %v", info.Mode(), err)
	}
}

func TestRemove(t *testing.T) {
	const b = "kind: ConfigMap\nmetadata: {name: b}\n"
	for name, c := range map[string]struct{ before, after string }{
		"the only one": {"# head\n" + pod("web", "a:1"), ""},
		"the first": {"# head\n\n# web\n" + pod("web", "a:1") + "# foot\n---\n# b\n" + b,
			"# head\n\n# foot\n---\n# b\n" + b},
		"the last": {"# b\n" + b + "---\n# web\n" + pod("web", "a:1") + "# foot\n", "# b\n" + b + "# foot\n"},
		"between": {b + "---\n" + pod("web", "a:1") + "---\nkind: ConfigMap\nmetadata: {name: c}\n",
			b + "---\nkind: ConfigMap\nmetadata: {name: c}\n"},
		"not the broken": {pod("web", "a:1") + "---\na: [\n", "---\na: [\n"},
	} {
		dir := in(t, map[string]string{"x.yaml": c.before})
		d := read(t, dir)
		if _, err := d.Remove(web); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := d.Commit(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "x.yaml"))
		if c.after == "" && !errors.Is(err, os.ErrNotExist) || string(got) != c.after {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", name, err, got, c.after)
		}
	}
}

func TestRefusals(t *testing.T) {
	target := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(target, []byte(pod("web", "a:1")), 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(dir string) error { return os.Symlink(target, filepath.Join(dir, "x.yaml")) }
	for name, c := range map[string]struct {
		files   map[string]string
		prepare func(dir string) error
		words   []string
	}{
		"two files": {map[string]string{"a.yaml": pod("web", "a"), "b.yaml": pod("web", "b")}, nil,
			[]string{"a.yaml and in ", "b.yaml", "remove one"}},
		"twice in one": {map[string]string{"a.yaml": pod("web", "a") + "---\n" + pod("web", "b")}, nil,
			[]string{"twice in", "a.yaml"}},
		"a list": {map[string]string{"a.yaml": "kind: List\nitems: [{kind: Pod, metadata: {name: web}}]\n"}, nil,
			[]string{"an item of a list", "a.yaml"}},
		"a link": {nil, link, []string{"symbolic link to " + target, "x.yaml"}},
		"a hard link": {map[string]string{"a.yaml": pod("web", "a")},
			func(dir string) error { return os.Link(filepath.Join(dir, "a.yaml"), filepath.Join(dir, "a.txt")) },
			[]string{"2 hard links"}},
		"signed": {map[string]string{"a.yaml": pod("web", "a"), "a.yaml.sig": "x"}, nil, []string{"is signed", "a.yaml.sig"}},
	} {
		dir := in(t, c.files)
		if c.prepare != nil {
			if err := c.prepare(dir); err != nil {
				t.Fatal(err)
			}
		}
		d := read(t, dir)
		_, put := d.Write(documents(t, pod("web", "new"))[0], "web.yaml")
		_, removed := d.Remove(web)
		for what, err := range map[string]error{"put": put, "remove": removed} {
			for _, w := range c.words {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("%s: %s: %v; want an error with %q", name, what, err, w)
				}
			}
		}
		if changes := d.Changes(); len(changes) > 0 {
			t.Errorf("%s: changes %v", name, changes)
		}
	}
}

func TestASingleManifestIsEdited(t *testing.T) {
	dir := in(t, map[string]string{"all.yaml": pod("web", "a:1")})
	path := filepath.Join(dir, "all.yaml")
	d := read(t, path)
	if _, err := d.Write(documents(t, "kind: ConfigMap\nmetadata: {name: c}\n")[0], "other.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := content(t, path); got != pod("web", "a:1")+"---\nkind: ConfigMap\nmetadata: {name: c}\n" {
		t.Errorf("got\n%s", got)
	}
	if _, err := read(t, path).Remove(web); err != nil {
		t.Error(err)
	}
}

func TestOwnerIsKept(t *testing.T) {
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 12, 34
	}
	dir := in(t, map[string]string{"x.yaml": pod("web", "a:1")})
	path := filepath.Join(dir, "x.yaml")
	if err := os.Chown(path, uid, gid); err != nil {
		t.Fatal(err)
	}
	d := read(t, dir)
	if _, err := d.Write(documents(t, pod("web", "a:2"))[0], ""); err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != uid || int(st.Gid) != gid {
		t.Errorf("owner %d:%d", st.Uid, st.Gid)
	}
}
