package wait

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
)

// clientOf returns a client of a daemon that has these pods.
func clientOf(t *testing.T, pods ...v1.Pod) *client.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			list := v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
			if strings.HasSuffix(r.URL.Path, "/pods") {
				list.Items = pods
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(list)
		})}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })
	return client.New(socket)
}

// A wait repeats the state although it does not change, and ends with a pointer to podstead check when the runtime
// cannot start any sandbox: not while another pod has one, and not for a fault that can heal.
func TestWaitRepeatsTheStateAndEndsWhenNothingCanStart(t *testing.T) {
	const create = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to create containerd task: " +
		"failed " +
		"to create shim task: OCI runtime create failed: runc create failed: unable to start container process: write " +
		"/proc/self/oom_score_adj: permission denied: unknown"
	waits := func(message string) v1.Pod {
		p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-n1", Namespace: "default", UID: "u1"}}
		p.Spec.Containers = []v1.Container{{Name: "main"}}
		p.Status = v1.PodStatus{Phase: v1.PodPending, Reason: "FailedCreatePodSandBox", Message: message,
			ContainerStatuses: []v1.ContainerStatus{{Name: "main",
				State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}}
		return p
	}
	other := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-n1", Namespace: "default", UID: "u2"}}
	other.Status.Conditions = []v1.PodCondition{{Type: v1.PodReadyToStartContainers, Status: v1.ConditionTrue}}
	for _, c := range []struct {
		name, message string
		others        []v1.Pod
		ends          bool
	}{
		{"nothing can start", create, nil, true},
		{"another pod has a sandbox", create, []v1.Pod{other}, false},
		{"no network", "Failed to create pod sandbox: failed to setup network for sandbox: no IP addresses", nil, false},
	} {
		pod := waits(c.message)
		raw, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		o, err := objects.NewObject(raw)
		if err != nil {
			t.Fatal(err)
		}
		o.Name, o.Namespace = pod.Name, pod.Namespace
		var errs bytes.Buffer
		w := &Waiter{Client: clientOf(t, append(c.others, pod)...), Out: &errs, ErrOut: &errs, Kind: objects.PodKind(),
			Targets: []*Target{{Name: "web", Condition: podReady, object: o}}}
		p := terminal.NewProgress(&errs)
		if err := w.evaluate(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if err := w.evaluate(t.Context(), p); err != nil || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s: before: %v\n%s", c.name, err, errs.String())
		}
		err = w.repeat(t.Context(), p)
		if !c.ends {
			if err != nil || strings.Count(errs.String(), "pod/web-n1: FailedCreatePodSandBox") != 2 {
				t.Errorf("%s: %v\n%s", c.name, err, errs.String())
			}
			continue
		}
		if err == nil || err.Error() != "pod/web-n1: the container runtime cannot start any sandbox: write "+
			"/proc/self/oom_score_adj: permission denied; podstead check examines this host and prints what to do" {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
