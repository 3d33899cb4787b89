package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/objects"
)

func several() v1.Pod {
	return pod("many", func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{{Name: "i"}} })
}

func single() v1.Pod {
	return pod("web", func(p *v1.Pod) {
		p.Spec.InitContainers = []v1.Container{{Name: "i"}}
		p.Spec.Containers = p.Spec.Containers[:1]
	})
}

func annotated() v1.Pod {
	return pod("noted", func(p *v1.Pod) { p.Annotations[objects.DefaultContainerAnnotation] = "b" })
}

func TestLogsRequest(t *testing.T) {
	var requested string
	var since string
	socket := fullDaemon(t, []v1.Pod{single(), several(), annotated()}, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		since = q.Get("sinceTime")
		q.Del("sinceTime")
		requested = strings.TrimSuffix(r.URL.Path+"?"+q.Encode(), "?")
		_, _ = io.WriteString(w, "hello\n")
	})
	const all = "/containerLogs/default/"
	for _, c := range []struct {
		args string
		want string
	}{
		{"web", all + "web-n1/a"},
		{"web-n1", all + "web-n1/a"},
		{"pod/web -c i", all + "web-n1/i"},
		{"many -c b", all + "many-n1/b"},
		{"many -c i -p", all + "many-n1/i?previous=true"},
		{"noted", all + "noted-n1/b"},
		{"noted -c a", all + "noted-n1/a"},
		{"web -f --tail 5 --timestamps", all + "web-n1/a?follow=true&tailLines=5&timestamps=true"},
		{"web --tail 0", all + "web-n1/a?tailLines=0"},
		{"web --tail -1 --previous", all + "web-n1/a?previous=true"},
	} {
		args := append([]string{"logs", "--api-socket", socket}, strings.Fields(c.args)...)
		out, errs, err := execute(t, "", args...)
		if err != nil || out != "hello\n" || errs != "" || requested != c.want {
			t.Errorf("%s: request %q, want %q; %q %q %v", c.args, requested, c.want, out, errs, err)
		}
	}
	if _, _, err := execute(t, "", "logs", "--api-socket", socket, "web", "--since", "10m"); err != nil {
		t.Error(err)
	}
	at, err := time.Parse(time.RFC3339Nano, since)
	if d := time.Since(at); err != nil || d < 10*time.Minute || d > 11*time.Minute {
		t.Errorf("--since 10m requests logs since %q", since)
	}
}

func TestLogsErrors(t *testing.T) {
	socket := fullDaemon(t, []v1.Pod{single(), several()}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("previous") {
			http.Error(w, `container "a" has no previous instance`, http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, "half\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"many", "choose one of i, a, b with --container", 1},
		{"many -c x", `container "x" not found in pod "many-n1"; choose one of i, a, b`, 1},
		{"nosuch", `pod "nosuch" not found`, 1},
		{"web -n prod", "it exists in namespace default", 1},
		{"web --tail -2", "--tail -2", 2},
		{"web --since -1s", "--since -1s", 2},
		{"web", "try again", 1},
		{"", "podstead logs POD", 2},
	} {
		args := append([]string{"logs", "--api-socket", socket}, strings.Fields(c.args)...)
		if _, _, err := execute(t, "", args...); Code(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
	if _, _, err := execute(t, "", "logs", "--api-socket", socket, "web", "-p"); err == nil ||
		err.Error() != `container "a" has no previous instance` {
		t.Errorf("error of the daemon: %v", err)
	}
}

// Ctrl-C ends logs -f with success, and logs without -f with ExitInterrupted.
func TestLogsInterrupted(t *testing.T) {
	for flags, want := range map[string]int{"-f": 0, "--previous": 130} {
		ctx, cancel := context.WithCancel(t.Context())
		socket := fullDaemon(t, []v1.Pod{single()}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "hello\n")
			_ = http.NewResponseController(w).Flush()
			cancel()
			<-r.Context().Done()
		})
		root := &cobra.Command{Use: "podstead", SilenceErrors: true, SilenceUsage: true}
		root.AddCommand(Commands(Version{})...)
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs([]string{"logs", "web", flags, "--api-socket", socket})
		if err := root.ExecuteContext(ctx); Code(err) != want {
			t.Errorf("logs %s, interrupted: %v, want exit code %d", flags, err, want)
		}
		cancel()
	}
}
