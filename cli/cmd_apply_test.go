package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const appliedPod = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: main
    image: registry.example/web:1
`

// manifestDaemon serves a daemon that reads a directory of manifests, and a URL with the pod
// "remote" and the ConfigMap "far".
func manifestDaemon(t *testing.T, dir, units string) *fakeDaemon {
	t.Helper()
	d := newFakeDaemon(t)
	d.manifests = fmt.Sprintf(
		`[{"source":"file","location":%q,"units":[%s]},{"source":"http","location":"http://x/pods","units":[{"name":"http://x/pods","pods":["default/remote"]}]}]`, dir, units)
	d.objects = `[{"kind":"ConfigMap","namespace":"default","name":"far","source":"http","manifest":"http://x/pods"}]`
	return d.start()
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestApply(t *testing.T) {
	dir, input := t.TempDir(), filepath.Join(t.TempDir(), "web.yaml")
	d := manifestDaemon(t, dir, "")
	apply := func(args ...string) string {
		t.Helper()
		out, errs, err := execute(t, "", append([]string{"apply", "--api-socket", d.socket, "-f", input}, args...)...)
		if err != nil {
			t.Fatalf("%v: %s", err, errs)
		}
		return out
	}
	file := filepath.Join(dir, "web.yaml")
	write(t, input, "# The server\n"+appliedPod)
	if client, server := apply("--dry-run=client"), apply("--dry-run=server"); client != server {
		t.Errorf("dry run of the client: %s\nof the server: %s", client, server)
	}
	if out := apply("--dry-run=client"); out != "--- Pod default/web in "+file+" (now)\n+++ Pod default/web in "+file+
		" (new)\n@@ -0,0 +1,7 @@\n"+
		"+"+strings.ReplaceAll(strings.TrimSuffix(appliedPod, "\n"), "\n", "\n+")+"\npod/web created (dry run) in "+file+
		"\n" {
		t.Errorf("dry run: %s", out)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a dry run wrote the manifest")
	}
	if out := apply(); out != "pod/web created in "+file+"\n" {
		t.Errorf("first: %s", out)
	}
	if got, _ := os.ReadFile(file); string(got) != "# The server\n"+appliedPod {
		t.Errorf("the file is %s", got)
	}
	if out := apply(); out != "pod/web unchanged in "+file+"\n" {
		t.Errorf("again: %s", out)
	}
	write(t, input, strings.Replace(appliedPod, "web:1", "web:2", 1))
	if out := apply(); !strings.Contains(out,
		"-    image: registry.example/web:1\n+    image: registry.example/web:2\n") ||
		!strings.HasSuffix(out, "pod/web configured in "+file+"\n") {
		t.Errorf("changed: %s", out)
	}
	out, _, err := execute(t,
		`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "hunter2"}}`, "apply",
		"--api-socket", d.socket, "-f", "-")
	if err != nil || out != "secret/s created in "+filepath.Join(dir, "s-secret.yaml")+"\n" {
		t.Errorf("a Secret from standard input: %v, %s", err, out)
	}
	out, _, err = execute(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: hunter3, b: x}\n",
		"apply", "--api-socket", d.socket, "-f", "-")
	if err != nil || strings.Contains(out, "hunter") || !strings.Contains(out, "+  a: '*** (after)'\n+  b: '***'\n") {
		t.Errorf("a changed Secret: %v, %s", err, out)
	}
}

func TestApplyPrintsEachWarningOnce(t *testing.T) {
	dir := t.TempDir()
	d := manifestDaemon(t, dir, "")
	input := write(t, filepath.Join(t.TempDir(), "web.yaml"), appliedPod+"    resources: {limits: {memory: 64}}\n")
	if _, errs, err := execute(t, "", "apply", "--api-socket", d.socket, "-f", input); err != nil ||
		strings.Count(errs, "64 is 64 bytes") != 1 {
		t.Errorf("%v: %s", err, errs)
	}
}

func TestApplyOfAComposeFile(t *testing.T) {
	dir := t.TempDir()
	d := manifestDaemon(t, dir, "")
	input := write(t, filepath.Join(t.TempDir(), "compose.yaml"), "services:\n  db:\n    image: postgres:16\n")
	_, errs, err := execute(t, "", "apply", "--api-socket", d.socket, "-f", input)
	if Code(err) != ExitFailed || !strings.Contains(errs,
		input+":1: is a Compose file and not a manifest; convert it with podstead convert") {
		t.Errorf("%v: %s", err, errs)
	}
}

func TestApplyAndDeleteRefuse(t *testing.T) {
	dir := t.TempDir()
	broken := write(t, filepath.Join(dir, "broken.yaml"), "kind: [\n")
	write(t, filepath.Join(dir, "a.yaml"), strings.ReplaceAll(appliedPod, "name: web", "name: twice"))
	write(t, filepath.Join(dir, "b.yaml"), strings.ReplaceAll(appliedPod, "name: web", "name: twice"))
	mixed := write(t, filepath.Join(dir, "mixed.yaml"),
		strings.ReplaceAll(appliedPod, "name: web", "name: mixed")+
			"---\napiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {}\n")
	d := manifestDaemon(t, dir, fmt.Sprintf(`{"name":%q,"pods":["default/kept"],"faults":["x"]}`, broken))
	pod := func(name string) string { return strings.ReplaceAll(appliedPod, "name: web", "name: "+name) }
	for name, c := range map[string]struct {
		stdin string
		args  []string
		words []string
	}{
		"a pod of a URL": {pod("remote"), []string{"apply", "-f", "-"},
			[]string{"Pod default/remote comes from http://x/pods; change it there"}},
		"deletion of a pod of a URL": {"", []string{"delete", "remote"}, []string{"comes from http://x/pods"}},
		"an object of a URL": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: far}\n",
			[]string{"apply", "-f", "-"}, []string{"ConfigMap default/far comes from http://x/pods"}},
		"a pod of a broken file": {pod("kept"), []string{"apply", "-f", "-"},
			[]string{"last good revision of " + broken, "correct the file first"}},
		"two documents": {pod("twice"), []string{"apply", "-f", "-"},
			[]string{"a.yaml and in ", "b.yaml; remove one of them"}},
		"two in the input": {pod("x") + "---\n" + pod("x"), []string{"apply", "-f", "-"},
			[]string{"Pod default/x is declared twice in -"}},
		"an invalid manifest": {strings.Replace(appliedPod, "image", "imge", 1), []string{"apply", "-f", "-"},
			[]string{"-:7: ", "imge"}},
		"a file with other faults": {strings.Replace(pod("mixed"), "web:1", "web:2", 1), []string{"apply", "-f", "-"},
			[]string{mixed + ":", "bad"}},
		"a missing pod": {"", []string{"delete", "nosuch"}, []string{"Pod default/nosuch is in no manifest"}},
		"a node":        {"", []string{"delete", "node/n1"}, []string{"nodes are not declared in manifests"}},
		"an unknown dry run": {pod("x"), []string{"apply", "-f", "-", "--dry-run=both"},
			[]string{"must be client, server or none"}},
	} {
		before := entries(t, dir)
		_, errs, err := execute(t, c.stdin, append(c.args, "--api-socket", d.socket)...)
		text := fmt.Sprint(err, errs)
		for _, w := range c.words {
			if err == nil || !strings.Contains(text, w) {
				t.Errorf("%s: %s; want %q", name, text, w)
			}
		}
		if after := entries(t, dir); after != before {
			t.Errorf("%s: wrote\n%s\nbefore\n%s", name, after, before)
		}
	}
}

// entries returns the files of a directory with their contents.
func entries(t *testing.T, dir string) string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range all {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		fmt.Fprintln(&b, e.Name(), string(data), err)
	}
	return b.String()
}

func TestDelete(t *testing.T) {
	dir := t.TempDir()
	all := filepath.Join(dir, "all.yaml")
	write(t, all, "# Everything\n\n"+appliedPod+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+
		"site}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: prod}\nspec: {containers: [{name: main, "+
		"image: x}]}\n")
	d := manifestDaemon(t, dir, "")
	run := func(args ...string) (string, error) {
		out, _, err := execute(t, "", append(args, "--api-socket", d.socket)...)
		return out, err
	}
	if _, err := run("delete", "web"); err == nil ||
		!strings.Contains(err.Error(), "exists in namespaces default and prod") {
		t.Errorf("an ambiguous name: %v", err)
	}
	if out, err := run("delete", "pod", "web-n1", "-n", "default"); err != nil || out != "pod/web deleted in "+all+"\n" {
		t.Errorf("by its full name: %v, %s", err, out)
	}
	if out, err := run("delete", "cm/site", "nosuch", "--ignore-not-found"); err != nil ||
		out != "configmap/site deleted in "+all+"\n" {
		t.Errorf("a ConfigMap: %v, %s", err, out)
	}
	if got, _ := os.ReadFile(all); string(got) != "# Everything\n\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: "+
		"web, namespace: prod}\nspec: {containers: [{name: main, image: x}]}\n" {
		t.Errorf("the rest is\n%s", got)
	}
	if out, err := run("delete", "-f", all); err != nil || out != "pod/web deleted in "+all+"\n" {
		t.Errorf("by its file: %v, %s", err, out)
	}
	if _, err := os.Stat(all); err == nil {
		t.Error("a file without documents is left")
	}
}

// With a directory, the commands need no daemon, as in the build of an image.
func TestApplyWithoutDaemon(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "nosuch")
	out, errs, err := execute(t, appliedPod, "apply", "-f", "-", "--api-socket", socket, "--pod-manifest-path", dir,
		"--hostname-override", "n1")
	if err != nil || out != "pod/web created in "+filepath.Join(dir, "web.yaml")+"\n" {
		t.Errorf("%v, %s, %s", err, out, errs)
	}
	if _, _, err := execute(t, appliedPod, "apply", "-f", "-", "--api-socket", socket, "--pod-manifest-path", dir,
		"--dry-run=server"); Code(err) != ExitNoDaemon {
		t.Errorf("a dry run of the server: %v", err)
	}
	if _, _, err := execute(t, appliedPod, "apply", "-f", "-", "--api-socket", socket); Code(err) != ExitNoDaemon {
		t.Errorf("without a directory: %v", err)
	}
}
