package objects

import (
	"net"
	"net/http"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api/client"
)

func TestAddLastLines(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/default/web-n1/{container}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("container") == "unread" {
			http.Error(w, "no log", http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(r.PathValue("container") + "?" + r.URL.RawQuery + "\n"))
	})
	srv := &http.Server{Handler: mux}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })

	ended := func(code int32, message string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Message: message}}
	}
	waiting := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	pod := v1.Pod{}
	pod.Namespace, pod.Name = "default", "web-n1"
	pod.Status.ContainerStatuses = []v1.ContainerStatus{
		{Name: "crashed", State: waiting, LastTerminationState: ended(1, "")},
		{Name: "failed", State: ended(2, "")},
		{Name: "explained", State: waiting, LastTerminationState: ended(1, "why")},
		{Name: "completed", State: waiting, LastTerminationState: ended(0, "")},
		{Name: "restarted", State: running, LastTerminationState: ended(1, "")},
		{Name: "unread", State: ended(1, "")},
	}
	AddLastLines(t.Context(), client.New(socket), []v1.Pod{pod})
	for i, want := range []string{"crashed?tailLines=1&previous=true", "failed?tailLines=1", "why", "", "", ""} {
		s := pod.Status.ContainerStatuses[i]
		got := s.LastTerminationState.Terminated
		if got == nil {
			got = s.State.Terminated
		}
		if got.Message != want {
			t.Errorf("%s: %q, want %q", s.Name, got.Message, want)
		}
	}
}
