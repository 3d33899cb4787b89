package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
)

func encode(t *testing.T, v any) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func labelled() []v1.Pod {
	pods := samples()[:3]
	for i, tier := range []string{"front", "back", "back"} {
		pods[i].Labels = map[string]string{"tier": tier, "app": "x"}
		priority := int32(100 - i)
		pods[i].Spec.Priority = &priority
	}
	return pods
}

func TestGetForms(t *testing.T) {
	d := newFakeDaemon(t, labelled()...)
	d.routes["GET /podstead/v1/images"] = response(
		`[{"name":"docker.io/library/busybox:1","id":"sha256:0123456789abcdef","tags":["docker.io/library/busybox:1"],"size":2048,"state":"used"}]`)
	d.routes["GET /podstead/v1/volumes"] = response(
		`[{"namespace":"apps","name":"data","path":"/v/apps/data","pods":["apps/db"]}]`)
	d.start()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"po", "-l", "tier=back", "-o", "name"}, "pod/crash-n1\npod/init-n1\n"},
		{[]string{"po", "--selector", "tier notin (back)", "-o", "name"}, "pod/web-n1\n"},
		{[]string{"po", "--field-selector", "status.phase=Pending", "-o", "name"}, "pod/init-n1\n"},
		{[]string{"pods", "--sort-by", ".spec.priority", "-o", "name"}, "pod/init-n1\npod/crash-n1\npod/web-n1\n"},
		{[]string{"pods", "-o", "jsonpath={.items[*].metadata.name}"}, "crash-n1 init-n1 web-n1"},
		{[]string{"pod", "web", "-o", "jsonpath={.metadata.labels.tier}"}, "front"},
		{[]string{"pods", "-o", "custom-columns=POD:.metadata.name,PRIO:.spec.priority,NONE:.x"},
			"POD        PRIO   NONE\ncrash-n1   99     <none>\ninit-n1    98     <none>\nweb-n1     100    <none>\n"},
		{[]string{"pods", "-o", "custom-columns=POD:metadata.name", "--no-headers", "web"}, "web-n1\n"},
		{[]string{"pod/web", "no/n1", "-o", "name"}, "pod/web-n1\nnode/n1\n"},
		{[]string{"pods,nodes", "-o", "name"}, "pod/crash-n1\npod/init-n1\npod/web-n1\nnode/n1\n"},
		{[]string{"pods", "--show-labels", "web", "--no-headers"},
			"default   web-n1   2/2   Running   0   3h   app=x,tier=front\n"},
		{[]string{"ns", "-o", "name"}, "namespace/default\n"},
		{[]string{"images"}, "IMAGE                         ID             SIZE      STATE   LAST " +
			"USED\ndocker.io/library/busybox:1   0123456789ab   2.0 KiB   used    now\n"},
		{[]string{"volumes", "-n", "apps"},
			"NAMESPACE   CLAIM   REQUESTED   USED BY   PATH\napps        data    <none>      apps/db   /v/apps/data\n"},
	} {
		out, errs, err := execute(t, "", append([]string{"get", "--api-socket", d.socket}, c.args...)...)
		if err != nil || errs != "" || out != c.want {
			t.Errorf("get %q:\n%s%s%v, want\n%s", c.args, out, errs, err, c.want)
		}
	}
	out, _, err := execute(t, "", "get", "nodes", "--api-socket", d.socket)
	if err != nil || !strings.HasPrefix(out, "NAME   STATUS   ROLES    AGE") ||
		!strings.Contains(out, "n1     Ready    <none>") {
		t.Errorf("get nodes: %v\n%s", err, out)
	}
}

// What a file declares is listed by kind and name. Tables of several kinds have an empty line between
// them, on standard output with them.
func TestGetFiles(t *testing.T) {
	d := newFakeDaemon(t, labelled()...)
	d.start()
	file := write(t, filepath.Join(t.TempDir(), "two.yaml"),
		strings.ReplaceAll(appliedPod, "name: web", "name: crash")+"---\n"+appliedPod)
	get := func(args ...string) (string, string, error) {
		t.Helper()
		return execute(t, "", append([]string{"get", "--api-socket", d.socket}, args...)...)
	}
	if out, errs, err := get("-f", file, "-o", "name"); err != nil || out != "pod/crash-n1\npod/web-n1\n" {
		t.Errorf("%q, %q, %v", out, errs, err)
	}
	other := write(t, filepath.Join(t.TempDir(), "other.yaml"),
		strings.ReplaceAll(appliedPod, "name: web", "name: nosuch"))
	if out, errs, err := get("-f", other); Code(err) != ExitFailed ||
		!strings.Contains(errs, `pod "nosuch" not found in namespace default`) {
		t.Errorf("a missing pod: %q, %q, %v", out, errs, err)
	}
	for want, args := range map[string][]string{
		"--filename names the objects; remove the types":     {"pods", "-f", file},
		"--filename names the objects; remove the selectors": {"-l", "a=b", "-f", file},
		"no such file or directory":                          {"-f", file + "x"},
	} {
		if _, _, err := get(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("get %q: %v, want %q", args, err, want)
		}
	}
	if out, _, err := get("pods,nodes"); err != nil || !strings.Contains(out, "\n\nNAME ") {
		t.Errorf("no empty line between the tables on standard output: %v\n%s", err, out)
	}
}

func TestGetErrors(t *testing.T) {
	d := newFakeDaemon(t, labelled()...).start()
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"pots", "did you mean pods?", 2},
		{"ingresses", "pods, events, nodes", 2},
		{"pods -l a;b", "labelSelector", 2},
		{"pods --field-selector spec.color=x", "spec.color", 2},
		{"pods -o go-template=x", "jsonpath", 2},
		{"pods -o jsonpath={.a", "unclosed action", 2},
		{"pods -o custom-columns=NAME", "HEADER:PATH", 2},
		{"pods --sort-by {", "--sort-by", 2},
		{"pods --sort-by foo", "no object has this field", 1},
		{"pods --sort-by foo -o name", "no object has this field", 1},
		{"pods --sort-by foo -w", "no object has this field", 1},
		{"pods -o jsonpath", "a template is required", 2},
		{"pods -o jsonpath=", "a template is required", 2},
		{"pods,nodes web", "single type", 2},
		{"pod/web nodes", "TYPE/NAME", 2},
		{"images -w", "cannot be watched", 2},
		{"pods,nodes -w", "only one type", 2},
		{"images -l a=b", "labels", 2},
		{"--nosuch", "unknown flag", 2},
	} {
		_, _, err := execute(t, "", append([]string{"get", "--api-socket", d.socket}, strings.Fields(c.args)...)...)
		if Code(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("get %s: %v (%d), want %q (%d)", c.args, err, Code(err), c.want, c.code)
		}
	}
	for args, want := range map[string]string{
		"pod wbe":         "pod \"wbe\" not found; did you mean \"web\"?\n",
		"pod web -n prod": "pod \"web\" not found in namespace prod; it exists in namespace default\n",
		"node x":          "node \"x\" not found\n",
	} {
		out, errs, err := execute(t, "", append([]string{"get", "--api-socket", d.socket}, strings.Fields(args)...)...)
		if Code(err) != 1 || !Silent(err) || out != "" || errs != want {
			t.Errorf("get %s: %q %q %v", args, out, errs, err)
		}
	}
}

// watching is a running command with its output lines.
type watching struct {
	t     *testing.T
	lines chan string
	end   func() error
}

func watchLines(t *testing.T, args ...string) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	root := &cobra.Command{Use: "podstead", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(Version{})...)
	root.SetOut(w)
	root.SetErr(w)
	root.SetArgs(args)
	ended := make(chan error, 1)
	go func() {
		err := root.ExecuteContext(ctx)
		_ = w.Close()
		ended <- err
	}()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			lines <- s.Text()
		}
	}()
	wt := &watching{t: t, lines: lines, end: func() error { cancel(); return <-ended }}
	t.Cleanup(cancel)
	return wt
}

func (w *watching) want(words ...string) {
	w.t.Helper()
	select {
	case line := <-w.lines:
		for _, word := range words {
			if !strings.Contains(line, word) {
				w.t.Fatalf("the line %q has no %q", line, word)
			}
		}
	case <-time.After(2 * time.Minute):
		w.t.Fatalf("no line with %q", words)
	}
}

// A watch reports each change, including changes while the daemon was down, and Ctrl-C ends
// it with success.
func TestGetWatchSurvivesARestart(t *testing.T) {
	d := newFakeDaemon(t, samples()[0]).start()
	w := watchLines(t, "get", "pods", "-w", "--output-watch-events", "--api-socket", d.socket)
	w.want("EVENT", "NAMESPACE")
	w.want("ADDED", "web-n1", "Running")
	d.change(func(pods []v1.Pod) []v1.Pod { return append(pods, samples()[1]) })
	w.want("ADDED", "crash-n1")
	d.stop()
	w.want("not responding")
	d.change(func(pods []v1.Pod) []v1.Pod { return append(pods[1:], samples()[5]) })
	_ = os.Remove(d.socket)
	d.start()
	w.want("responding again")
	w.want("ADDED", "held-n1")
	w.want("DELETED", "web-n1")
	d.change(func(pods []v1.Pod) []v1.Pod { return pods[1:] })
	w.want("DELETED", "crash-n1")
	if err := w.end(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
}

func TestGetWatchForms(t *testing.T) {
	d := newFakeDaemon(t, samples()[0]).start()
	w := watchLines(t, "get", "pods", "--watch-only", "-o", "name", "--api-socket", d.socket)
	<-d.watched
	n := watchLines(t, "get", "nodes", "-w", "--api-socket", d.socket)
	n.want("NAME", "STATUS")
	n.want("n1", "Ready")
	d.change(func(pods []v1.Pod) []v1.Pod { return append(pods, samples()[1]) })
	w.want("pod/crash-n1")
	if err := w.end(); err != nil {
		t.Error(err)
	}
}

// A watch of pods reports when the node stops being well and when it is well again; what programs read has no such
// lines.
func TestGetWatchReportsTheNode(t *testing.T) {
	down := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionFalse, Message: "the runtime is dead"}
	pressure := v1.NodeCondition{Type: v1.NodeDiskPressure, Status: v1.ConditionTrue,
		Message: "the node has disk pressure"}
	d := newFakeDaemon(t, samples()[0])
	d.conditions = []v1.NodeCondition{down}
	d.start()
	w := watchLines(t, "get", "pods", "-w", "--api-socket", d.socket)
	names := watchLines(t, "get", "pods", "-w", "-o", "name", "--api-socket", d.socket)
	w.want("NAMESPACE")
	w.want("web-n1")
	w.want("node: n1 is not ready: the runtime is dead; podstead check")
	names.want("pod/web-n1")
	d.setConditions(down, pressure)
	w.want("node: n1 has DiskPressure: the node has disk pressure")
	d.setConditions()
	w.want("node: n1 is ready, and under no pressure")
	d.change(func(pods []v1.Pod) []v1.Pod { return append(pods, samples()[1]) })
	w.want("crash-n1")
	names.want("pod/crash-n1")
	if err := w.end(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
}

func response(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// The server's table, which is requested where it is sufficient, equals the one that is made
// here from whole objects.
func TestServerTableEqualsLocalTable(t *testing.T) {
	d := newFakeDaemon(t, samples()...).start()
	short, _, err := execute(t, "", "get", "pods", "--show-labels", "--api-socket", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	local, _, err := execute(t, "", "get", "pods", "--show-labels", "--sort-by", ".metadata.namespace", "--api-socket",
		d.socket)
	if err != nil || short != local || strings.Count(short, "\n") != len(samples())+1 {
		t.Errorf("%v: server table\n%slocal table\n%s", err, short, local)
	}
}
