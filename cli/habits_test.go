package cli

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/manifest/edit"
)

func TestDurationsWithDays(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{"7d": 7 * day, "1d12h": 36 * time.Hour, "90s": 90 * time.Second,
		"0": 0} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s: %s %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "-1d", "1d-2h", "1dx", "99999999999d", "soon"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
	if _, _, err := execute(t, "", "logs", "web", "--since", "soon"); Code(err) != ExitUsage ||
		strings.Contains(err.Error(), "time:") {
		t.Errorf("a wrong duration: %v", err)
	}
}

func TestLogsOfSeveral(t *testing.T) {
	d := newFakeDaemon(t, labelled()...)
	d.routes["GET /containerLogs/{namespace}/{pod}/{container}"] = func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("container") == "i" {
			http.Error(w, "it has not started", http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s\nend", r.PathValue("container"), r.URL.Query().Get("sinceTime"))
	}
	d.start()
	logs := func(args ...string) (string, string, error) {
		return execute(t, "", append([]string{"logs", "--api-socket", d.socket}, args...)...)
	}
	if out, errs, err := logs("web", "--all-containers"); err != nil || errs != "" || out != "a \nend\nb \nend\n" {
		t.Errorf("all containers: %q %q %v", out, errs, err)
	}
	if out, _, err := logs("web", "-c", "b", "--prefix", "--since-time=2026-01-31T12:00:00Z"); err != nil ||
		out != "[pod/web-n1/b] b 2026-01-31T12:00:00Z\n[pod/web-n1/b] end\n" {
		t.Errorf("a prefix: %q %v", out, err)
	}
	out, _, err := logs("-f", "-l", "tier=front", "--all-containers", "--prefix")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	if err != nil || len(lines) < 4 || lines[0] != "[pod/web-n1/a] a " || !slices.Contains(lines, "[pod/web-n1/b] end") {
		t.Errorf("a selector: %q %v", lines, err)
	}
	for _, args := range [][]string{
		{"web", "-l", "tier=front"}, {}, {"web", "--since=1h", "--since-time=2026-01-31T12:00:00Z"},
		{"web", "--since-time=today"}, {"web", "-c", "a", "--all-containers"},
	} {
		if _, _, err := logs(args...); Code(err) != ExitUsage {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, _, err := logs("-l", "app=none"); Code(err) != ExitFailed || !strings.Contains(err.Error(), "--show-labels") {
		t.Errorf("no pods: %v", err)
	}
}

func TestSocketOfTheEnvironment(t *testing.T) {
	d := newFakeDaemon(t, labelled()...).start()
	t.Setenv(socketVariable, d.socket)
	if out, _, err := execute(t, "", "get", "pods", "web", "-o", "name"); err != nil || out != "pod/web-n1\n" {
		t.Errorf("%q %v", out, err)
	}
}

func TestCommandsOfOtherTools(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"stop": "to stop a pod, podstead delete POD", "ps": "podstead get pods",
		"rollback": "podstead rollout undo POD", "compose": "podstead convert FILE", "play": "podstead apply -f FILE",
		"login": "/var/lib/podstead/config.json",
		"gett":  "did you mean podstead get?", "foo": `unknown command "foo" for "podstead"; see podstead --help`} {
		if _, _, err := execute(t, "", name); Code(err) != ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a command of another tool is said to be here is no command itself, and names commands that exist.
func TestOtherCommandsExist(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{Use: "podstead"}
	root.AddCommand(append(Commands(Version{}), &cobra.Command{Use: "check"})...)
	for name, other := range otherCommands {
		if cmd, _, err := root.Find([]string{name}); err == nil && cmd != root {
			t.Errorf("%s is a command", name)
		}
		for _, match := range regexp.MustCompile(`podstead ([a-z-]+)`).FindAllStringSubmatch(other, -1) {
			if cmd, _, err := root.Find(match[1:2]); err != nil || cmd == root {
				t.Errorf("%s: there is no podstead %s", name, match[1])
			}
		}
	}
}

func TestMisspelledCommandWithFlags(t *testing.T) {
	t.Parallel()
	if _, _, err := execute(t, "", "aply", "-f", "x.yaml"); Code(err) != ExitUsage ||
		err.Error() != `unknown command "aply" for "podstead"; did you mean podstead apply?` {
		t.Error(err)
	}
	if _, _, err := execute(t, "", "--nosuch"); Code(err) != ExitUsage ||
		!strings.Contains(err.Error(), "unknown flag: --nosuch") {
		t.Error(err)
	}
}

func TestMisspelledSubcommands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ command, name, want string }{
		{"rollout", "undoo", `unknown command "undoo" for "podstead rollout"; did you mean podstead rollout undo?`},
		{"images", "pul", `unknown command "pul" for "podstead images"; did you mean podstead images pull?`},
		{"images", "remove", `unknown command "remove" for "podstead images"; its commands are load, ls, prune, pull`},
	} {
		if _, _, err := execute(t, "", c.command, c.name); Code(err) != ExitUsage || err.Error() != c.want {
			t.Errorf("%s %s: %v, want %s", c.command, c.name, err, c.want)
		}
	}
}

func TestLabelColumns(t *testing.T) {
	d := newFakeDaemon(t, labelled()...).start()
	out, _, err := execute(t, "", "get", "pods", "-L", "tier,example.com/none", "--api-socket", d.socket, "web")
	lines := strings.Split(out, "\n")
	if err != nil || !strings.HasSuffix(lines[0], "TIER    NONE") || !strings.HasSuffix(lines[1], "front   <none>") {
		t.Errorf("%q %v", out, err)
	}
}

// Errors name the file and the reason, not the call that failed, and a command that helps.
func TestMessages(t *testing.T) {
	t.Parallel()
	_, open := os.Open("/nosuch/file")
	for want, err := range map[string]error{
		"failed to read archive: /nosuch/file: no such file or directory":                                               fmt.Errorf("failed to read archive: %w", open),
		"Pod default/x is in no manifest; podstead get lists pods and other objects by type, such as podstead get pods": fmt.Errorf("Pod default/x %w", edit.ErrNotFound),
		"plain": errors.New("plain"),
	} {
		if got := Message(err); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	if _, _, err := execute(t, "", "status", "foo"); Code(err) != ExitUsage ||
		err.Error() != `unexpected argument "foo": podstead status takes none; see podstead status --help` {
		t.Errorf("status with an argument: %v", err)
	}
}

// The help lists each command in one group.
func TestCommandsAreInGroups(t *testing.T) {
	t.Parallel()
	out, _, err := execute(t, "", "--help")
	for _, g := range commandGroups {
		if !strings.Contains(out, "\n"+g.title+":\n") {
			t.Errorf("no group %q: %v\n%s", g.title, err, out)
		}
	}
	if strings.Contains(out, "Additional Commands") {
		t.Errorf("commands are in no group:\n%s", out)
	}
}
