package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// execute runs a command line and returns what it printed.
func execute(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	root := &cobra.Command{Use: "podstead", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(Version{Version: "v0", KubernetesVersion: "v1", Platform: "linux/arm"})...)
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetIn(strings.NewReader(stdin))
	Finish(root)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func pod(name string, edit func(*v1.Pod)) v1.Pod {
	p := v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-n1", Namespace: "default",
			Annotations: map[string]string{"kubernetes.io/config.source": "file"}},
		Spec:   v1.PodSpec{NodeName: "n1", Containers: []v1.Container{{Name: "a"}, {Name: "b"}}},
		Status: v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.7"},
	}
	since := metav1.NewTime(time.Now().Add(-3 * time.Hour))
	p.Status.StartTime = &since
	edit(&p)
	return p
}

func running(name string) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, Ready: true, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
}

func waiting(name, reason, message string) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name,
		State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func ended(name string, code int32, reason string) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name,
		State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: reason}}}
}

func samples() []v1.Pod {
	return []v1.Pod{
		pod("web", func(p *v1.Pod) { p.Status.ContainerStatuses = []v1.ContainerStatus{running("a"), running("b")} }),
		pod("crash", func(p *v1.Pod) {
			w := waiting("b", "CrashLoopBackOff", "back-off 10s restarting failed container=b")
			w.RestartCount = 4
			w.LastTerminationState.Terminated = &v1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled",
				FinishedAt: metav1.NewTime(time.Now().Add(-15*time.Minute - 30*time.Second))}
			p.Spec.Containers[1].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}
			p.Status.ContainerStatuses = []v1.ContainerStatus{running("a"), w}
		}),
		pod("init", func(p *v1.Pod) {
			p.Status.Phase = v1.PodPending
			p.Spec.InitContainers = make([]v1.Container, 2)
			p.Status.InitContainerStatuses = []v1.ContainerStatus{ended("i", 0, "Completed"),
				waiting("j", "PodInitializing", "")}
			p.Status.ContainerStatuses = []v1.ContainerStatus{waiting("a", "PodInitializing", "")}
		}),
		pod("initfail", func(p *v1.Pod) {
			p.Spec.InitContainers = make([]v1.Container, 1)
			p.Status.InitContainerStatuses = []v1.ContainerStatus{ended("i", 1, "Error")}
			p.Status.InitContainerStatuses[0].State.Terminated.Message = "no\nspace"
		}),
		pod("job", func(p *v1.Pod) {
			p.Status.Phase = v1.PodSucceeded
			p.Status.ContainerStatuses = []v1.ContainerStatus{ended("a", 0, "Completed"), ended("b", 0, "Completed")}
		}),
		pod("held", func(p *v1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = v1.PodPending, "NameInUse", "a pod of\nanother client"
		}),
		pod("ending", func(p *v1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }),
		pod("other", func(p *v1.Pod) { p.Namespace = "prod"; p.Status.StartTime = nil; p.Status.PodIP = "" }),
	}
}

const noFaults = `[{"source":"file","location":"/etc/pods","units":[]}]`

func TestGetPodsTable(t *testing.T) {
	socket := daemon(t, samples(), noFaults)
	out, errs, err := execute(t, "", "get", "pods", "--api-socket", socket, "-o", "wide")
	if err != nil || errs != "" {
		t.Fatalf("%v %s", err, errs)
	}
	want := `NAMESPACE   NAME          READY   STATUS             RESTARTS      AGE      IP         NODE   SOURCE   MESSAGE
default     crash-n1      1/2     CrashLoopBackOff   4 (15m ago)   3h       10.0.0.7   n1     file     b ended with code 137 (OOMKilled): it exceeded its memory limit of 64Mi; raise resources.limits.memory, or let the program use less; back-off 10s
default     ending-n1     0/2     Terminating        0             3h       10.0.0.7   n1     file     <none>
default     held-n1       0/2     NameInUse          0             3h       10.0.0.7   n1     file     a pod of another client
default     init-n1       0/2     Init:1/2           0             3h       10.0.0.7   n1     file     <none>
default     initfail-n1   0/2     Init:Error         0             3h       10.0.0.7   n1     file     i ended with code 1: no space
default     job-n1        0/2     Completed          0             3h       10.0.0.7   n1     file     <none>
default     web-n1        2/2     Running            0             3h       10.0.0.7   n1     file     <none>
prod        other-n1      0/2     Running            0             <none>   <none>     n1     file     <none>
`
	if out != want {
		t.Errorf("got:\n%s\nwant:\n%s", out, want)
	}
}

func TestGetPodsChoosesByEitherName(t *testing.T) {
	socket := daemon(t, samples(), noFaults)
	out, errs, err := execute(t, "", "get", "pods", "web", "crash-n1", "pod/job", "nosuch", "-o", "name", "--api-socket",
		socket)
	if Code(err) != 1 || !Silent(err) {
		t.Errorf("a missing pod: %v, want exit code 1 without a message", err)
	}
	if out != "pod/crash-n1\npod/job-n1\npod/web-n1\n" || !strings.Contains(errs, `pod "nosuch" not found`) {
		t.Errorf("got %q and %q", out, errs)
	}
	out, _, err = execute(t, "", "get", "pods", "-n", "prod", "-o", "name", "--api-socket", socket)
	if err != nil || out != "pod/other-n1\n" {
		t.Errorf("-n prod: %q, %v", out, err)
	}
}

func TestGetPodsObjects(t *testing.T) {
	socket := daemon(t, samples(), noFaults)
	out, _, err := execute(t, "", "get", "pods", "-o", "json", "--api-socket", socket)
	var list v1.PodList
	if err != nil || json.Unmarshal([]byte(out), &list) != nil || len(list.Items) != len(samples()) ||
		list.Kind != "List" || list.Items[0].Kind != "Pod" {
		t.Errorf("-o json: %v\n%s", err, out)
	}
	out, _, err = execute(t, "", "get", "pods", "web", "-o", "yaml", "--api-socket", socket)
	if err != nil || !strings.HasPrefix(out, "apiVersion: v1\nkind: Pod\n") || strings.HasSuffix(out, "\n\n") {
		t.Errorf("one pod -o yaml: %v\n%s", err, out)
	}
	socket = daemon(t, nil, noFaults)
	out, _, err = execute(t, "", "get", "pods", "-o", "json", "--api-socket", socket)
	if err != nil || !strings.Contains(out, `"items": []`) {
		t.Errorf("no pods as json: %v\n%s", err, out)
	}
}

func TestGetPodsPrintsFaults(t *testing.T) {
	socket := daemon(t, nil,
		`[{"location":"/etc/pods","fault":"/etc/pods: is gone","units":[{"name":"/etc/pods/a.yaml","faults":["/etc/pods/a.yaml:3: x: wrong"]}]}]`)
	out, errs, err := execute(t, "", "get", "pods", "--api-socket", socket)
	if err != nil || out != "" {
		t.Fatalf("%q %v", out, err)
	}
	if want := "no pods found\nfault: /etc/pods: is gone\nfault: /etc/pods/a.yaml:3: x: wrong\n"; errs != want {
		t.Errorf("got %q, want %q", errs, want)
	}
}

func TestUnreachableDaemonExplainsRemedy(t *testing.T) {
	_, _, err := execute(t, "", "get", "pods", "--api-socket", filepath.Join(t.TempDir(), "none"))
	if err == nil || !strings.Contains(err.Error(), "podstead run") || !strings.Contains(err.Error(), "--api-socket") {
		t.Errorf("got %v", err)
	}
	_, _, err = execute(t, "", "get", "pods", "-o", "xml")
	if err == nil || !strings.Contains(err.Error(), "must be wide, json, yaml, name, jsonpath") {
		t.Errorf("got %v", err)
	}
}

const good = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, image: b:1}]}\n"

func TestValidate(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("web.yaml", good)
	write("web.yaml~", "junk: [")
	write("notes.txt", "junk")
	out, errs, err := execute(t, "", "validate", dir)
	if err != nil || !strings.Contains(errs, ": 1 entry is not read: notes.txt;") || out != "1 pod in 1 file: valid\n" {
		t.Fatalf("a valid directory: %q %q %v", out, errs, err)
	}
	if err := os.Remove(filepath.Join(dir, "notes.txt")); err != nil {
		t.Fatal(err)
	}

	write("twin.yaml", good)
	_, errs, err = execute(t, "", "validate", dir)
	if Code(err) != 1 || !Silent(err) || strings.Count(errs, "\n") != 1 ||
		!strings.Contains(errs, filepath.Join(dir, "web.yaml")) || !strings.Contains(errs, "twin.yaml") {
		t.Errorf("two files with one name: %q %v", errs, err)
	}

	bad := strings.Replace(good, "image: b:1", "imge: b:1", 1)
	_, errs, err = execute(t, bad, "validate", "-")
	if Code(err) != 1 || !strings.Contains(errs, "-:4: ") || !strings.Contains(errs, "image") {
		t.Errorf("a bad field on standard input: %q %v", errs, err)
	}
	_, errs, _ = execute(t, strings.Replace(bad, "name: a,", "name: A, zzz: 1,", 1), "validate", "-")
	if strings.Count(errs, "\n") != 3 {
		t.Errorf("want a line for each of three faults, got %q", errs)
	}
	_, errs, err = execute(t, strings.Replace(good, "b:1}", "b:1, zzz: 1}", 1), "validate", "--manifest-validation",
		"warn", "-")
	if err != nil || !strings.HasPrefix(errs, "warning: -:4: ") {
		t.Errorf("mode warn: %q %v", errs, err)
	}

	out, _, err = execute(t, good, "validate", "-o", "yaml", "--hostname-override", "N1", "-")
	if err != nil || !strings.Contains(out, "name: web-n1") ||
		!strings.Contains(out, "terminationGracePeriodSeconds: 30") {
		t.Errorf("-o yaml: %v\n%s", err, out)
	}

	_, _, err = execute(t, "", "validate", filepath.Join(dir, "nosuch.yaml"))
	if Code(err) != 1 || Silent(err) || !strings.HasPrefix(err.Error(), "failed to read "+dir) {
		t.Errorf("a missing file: %v", err)
	}
	empty := t.TempDir()
	if _, _, err = execute(t, "", "validate", empty); err == nil || !strings.Contains(err.Error(), ".yaml") {
		t.Errorf("an empty directory: %v", err)
	}
}

func TestInvalidCommandLines(t *testing.T) {
	for want, args := range map[string][]string{
		"podstead get pods":                {"get"},
		"or - for standard":                {"validate"},
		"unexpected argument \"x\"":        {"version", "x"},
		"mean podstead get?":               {"gett"},
		"see podstead --help":              {"frobnicate"},
		"did you mean podstead images ls?": {"images", "lss"},
	} {
		if _, _, err := execute(t, "", args...); Code(err) != ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, %d; want %q in it, and %d", args, err, Code(err), want, ExitUsage)
		}
	}
}

func TestVersion(t *testing.T) {
	if out, _, err := execute(t, "", "version"); err != nil || out != "podstead version v0 (Kubernetes v1)\n" {
		t.Errorf("version: %q %v", out, err)
	}
	for _, format := range []string{"json", "yaml"} {
		if out, _, err := execute(t, "", "version", "-o", format); err != nil || !strings.Contains(out, "linux/arm") ||
			strings.Contains(out, "commit") {
			t.Errorf("version -o %s: %q %v", format, out, err)
		}
	}
	if _, _, err := execute(t, "", "version", "-o", "wide"); Code(err) != ExitUsage {
		t.Errorf("version -o wide: %v", err)
	}
}
