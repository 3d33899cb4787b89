package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/manifest"
)

func TestUnified(t *testing.T) {
	var long []string
	for i := range 30 {
		long = append(long, strings.Repeat("x", i+1))
	}
	from := strings.Join(long, "\n") + "\n"
	long[1], long[20] = "one", "twenty"
	to := strings.Join(long, "\n") + "\n"
	diff := func(from, to string) string {
		text, err := unified(from, to, "a", "b")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	golden(t, "unified.txt", diff(from, to)+diff("", "new\n")+diff("old\n", ""))
	if got := diff(from, from); got != "" {
		t.Errorf("difference of equal texts: %s", got)
	}
}

// A diff shows real changes only: defaults are filled in. It does not show the data of
// Secrets.
func TestDiff(t *testing.T) {
	load := func(source manifest.Source) v1.Pod {
		content, faults := manifest.NewLoader("n1",
			manifest.ModeStrict).Load(manifest.LoadRequest{Source: source, Data: []byte(good)})
		if faults.Fatal() {
			t.Fatal(faults)
		}
		p := *content.Documents[0].Pod
		now := metav1.Now()
		p.Status = v1.PodStatus{Phase: v1.PodRunning, StartTime: &now}
		return p
	}
	d := newFakeDaemon(t, load(manifest.SourceFile))
	d.configMaps = []*v1.ConfigMap{
		{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}, Data: map[string]string{"a": "1"}}}
	d.start()
	dir := t.TempDir()
	run := func(stdin string, args ...string) (string, string, int) {
		out, errs, err := execute(t, stdin, append([]string{"diff", "--api-socket", d.socket}, args...)...)
		if err != nil && !Silent(err) {
			errs += err.Error()
		}
		return out, errs, Code(err)
	}
	explicit := strings.Replace(good, "image: b:1", "image: b:1, imagePullPolicy: IfNotPresent", 1)
	for name, text := range map[string]string{"unchanged": good, "an explicit default": explicit} {
		if out, errs, code := run(text, "-"); out != "" || errs != "" || code != 0 {
			t.Errorf("%s: %d %q %q", name, code, out, errs)
		}
	}
	d.change(func([]v1.Pod) []v1.Pod { return []v1.Pod{load(manifest.SourceHTTP)} })
	if out, errs, code := run(good, "-"); out != "" || code != 0 {
		t.Errorf("a pod from a URL: %d %q %q", code, out, errs)
	}
	file := filepath.Join(dir, "web.yaml")
	text := strings.Replace(good, "b:1", "b:2", 1) + "---\n" + strings.Replace(good, "name: web", "name: new", 1) +
		"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '2'}\n" +
		"---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter2}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := run("", dir)
	golden(t, "diff.txt", strings.ReplaceAll(out, dir, "/etc/pods"))
	if errs != "" || code != 1 || strings.Contains(out, "hunter2") {
		t.Errorf("a difference: %d %q", code, errs)
	}
	for args, want := range map[string]string{"/nowhere/x.yaml": "no such file", t.TempDir(): "no manifests found"} {
		if _, errs, code := run("", args); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %q", args, code, errs)
		}
	}
	if _, errs, code := run(strings.Replace(good, "image", "imge", 1), "-"); code != 2 ||
		!strings.Contains(errs, "-:4: ") {
		t.Errorf("a faulty manifest: %d %q", code, errs)
	}
	d.stop()
	if _, _, code := run(good, "-"); code != ExitNoDaemon {
		t.Errorf("without a daemon: %d", code)
	}
}
