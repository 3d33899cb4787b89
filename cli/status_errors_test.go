package cli

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// refusingDaemon refuses each request.
func refusingDaemon(t *testing.T, code int, text string) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, text, code)
		})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return socket
}

// The messages of the daemon are complete: no command adds the HTTP status or the path of its request.
func TestErrorsAreTheMessageOfTheDaemon(t *testing.T) {
	t.Setenv(socketVariable, refusingDaemon(t, http.StatusServiceUnavailable, "the container runtime is not running"))
	for _, args := range []string{
		"attach web", "auto-update", "auto-update web", "cluster leave", "cp web:/a /tmp/b", "debug web --image a",
		"delete pod web", "describe pod web", "describe node", "events", "exec web -- true", "get pods", "get images",
		"get volumes", "get nodes", "get pod web", "images ls", "images prune", "images pull a:1", "images load -",
		"kubeconfig", "kubeconfig --revoke", "kubeconfig --revoke-id 5c1f0d7e63a94b0f9d2e8a7b6c5d4e3f", "logs web",
		"port-forward web 8080", "restart web", "rollout status web", "rollout history web", "rollout undo web",
		"status", "top pods", "top node", "volumes", "volumes rm web", "wait pod web --for=condition=Ready",
	} {
		_, errs, err := execute(t, "", strings.Fields(args)...)
		if err == nil {
			t.Errorf("podstead %s: no error", args)
			continue
		}
		text := errs
		if !Silent(err) {
			text += Message(err)
		}
		if !strings.Contains(text, "the container runtime is not running") {
			t.Errorf("podstead %s lacks the daemon's message: %s", args, text)
		}
		for _, detail := range []string{"503", "Service Unavailable", "/podstead/v1", "/api/v1", "/stats", "/exec/"} {
			if strings.Contains(text, detail) {
				t.Errorf("podstead %s has %q: %s", args, detail, text)
			}
		}
	}
}

// A daemon of another version may lack what a command needs.
func TestErrorOfPathThatTheDaemonLacks(t *testing.T) {
	socket := refusingDaemon(t, http.StatusNotFound, "404 page not found")
	_, _, err := execute(t, "", "images", "ls", "--api-socket", socket)
	want := "the daemon does not serve /podstead/v1/images; it may be of another version than this command"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
