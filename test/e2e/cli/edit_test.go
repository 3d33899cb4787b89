package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/test/e2e/harness"
)

// edited runs podstead edit of the pod web with a shell script as the editor, in which $1 is the file, and returns its
// error output and exit code.
func edited(t *testing.T, n *harness.Node, script string, args ...string) (errs string, status int) {
	t.Helper()
	editor := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\nset -e\n"+script+"\n"), 0o700); err != nil {
		t.Error(err)
	}
	cmd := n.Command(append([]string{"edit", "web", "--api-socket", n.Socket()}, args...)...)
	cmd.Env = append(cmd.Env, "EDITOR="+editor, "KUBE_EDITOR=", "VISUAL=", "TMPDIR="+filepath.Dir(editor))
	var text strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &text
	_ = cmd.Run()
	return text.String(), cmd.ProcessState.ExitCode()
}

var keptText = regexp.MustCompile(`the edited text is kept in (\S+)`)

// Whatever fails after the editor has closed, the user's text is in a file that the error names, and the manifest and
// the pod are as before.
func TestEditKeepsTheText(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if err := unix.Mount("tmpfs", n.Manifests, "tmpfs", 0, "size=128k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(n.Manifests, unix.MNT_DETACH) })
		file := filepath.Join(n.Manifests, "web.yaml")
		n.WriteManifest("web.yaml", harness.SleepPod("web", "one"))
		n.MustStart()
		web := n.AwaitRunning("web")
		const change = `sed -i 's/^metadata:/# the work of an hour\nmetadata:/' "$1"`
		for _, c := range []struct{ name, script, want string }{
			{"the editor fails", change + "\nexit 1", "editor"},
			{"the manifest has changed", change + "\necho '# another change' >> " + file, "has changed"},
			{"the disk is full", change + "\nhead -c 200000 /dev/zero | tr '\\0' '#' >> \"$1\"", "no space left on device"},
		} {
			before, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			errs, status := edited(t, n, c.script)
			kept := keptText.FindStringSubmatch(errs)
			if status != 1 || !strings.Contains(errs, c.want) || kept == nil {
				t.Errorf("%s: exit code %d:\n%.2000s", c.name, status, errs)
				continue
			}
			if text, err := os.ReadFile(kept[1]); err != nil || !strings.Contains(string(text), "# the work of an hour") {
				t.Errorf("%s: %s has\n%.2000s\n%v", c.name, kept[1], text, err)
			}
			if after, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(after), string(before)) {
				t.Errorf("%s: the manifest is\n%s\n%v", c.name, after, err)
			}
			n.MustStillRun("web", web)
		}

		// The daemon is killed while the editor is open: it is not needed to write, only to wait. The next one reads it.
		type result struct {
			errs   string
			status int
		}
		open, ended := filepath.Join(t.TempDir(), "open"), make(chan result, 1)
		go func() {
			errs, status := edited(t, n, "sed -i s/one/two/ \"$1\"; touch "+open+"\nwhile [ -e "+open+" ]; do sleep 0.1; done",
				"--wait", "--timeout=10m")
			ended <- result{errs, status}
		}()
		n.Await("the editor is open", func() error { _, err := os.Lstat(open); return err })
		n.Kill()
		if err := os.Remove(open); err != nil {
			t.Fatal(err)
		}
		got := <-ended
		if text, err := os.ReadFile(file); got.status != 3 || err != nil || !strings.Contains(string(text), "two") {
			t.Errorf("exit code %d:\n%s\nthe manifest is\n%s\n%v", got.status, got.errs, text, err)
		}
		n.MustStart()
		n.AwaitOther("web", web)
	})
}

const blockScalars = `apiVersion: v1
kind: ConfigMap
metadata: {name: site}
data:
  text: |+
    one


---
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
data: {a: b}
---
# comment of the last one

apiVersion: v1
kind: ConfigMap
metadata: {name: last}
data: {a: b}
`

// A document that is removed, by the command or through the API, leaves the one before it as it was, also one that
// ends with a block scalar that keeps its line ends. The first Secret of a file that others can read makes it private.
func TestChangesOfAManifestWithOthers(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		web := harness.VolumePod("web", "[{name: site, configMap: {name: site}}]", "[{name: site, mountPath: /site}]", "")
		web = strings.Replace(web, "namespace: apps, ", "", 1)
		n.WriteManifest("web.yaml", web)
		n.WriteManifest("site.yaml", blockScalars)
		n.MustStart()
		pod := n.AwaitRunning("web")
		unchanged := func() {
			t.Helper()
			if got := n.Exec(pod, "sh", "-c", "wc -c < /site/text"); strings.TrimSpace(got) != "6" {
				t.Errorf("the pod sees %s bytes", got)
			}
			if got := n.CLI(0, nil, "get", "cm", "site", "-o", "jsonpath={.data.text}"); got != "one\n\n\n" {
				t.Errorf("the API has %q", got)
			}
		}
		unchanged()
		n.CLI(0, []string{"configmap/other deleted"}, "delete", "cm/other")
		gone := func(name string) {
			t.Helper()
			n.Await(name+" is gone", func() error {
				if _, _, status := n.Podstead("get", "cm", name, "--api-socket", n.Socket()); status != 1 {
					return fmt.Errorf("get exits with %d", status)
				}
				return nil
			})
		}
		gone("other")
		unchanged()
		client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", n.Socket())
		}}}
		if code, body := n.Request(client, http.MethodDelete, "http://podstead/api/v1/namespaces/default/configmaps/last",
			""); code != http.StatusOK {
			t.Errorf("the API responds with %d: %s", code, body)
		}
		gone("last")
		unchanged()
		text, err := os.ReadFile(filepath.Join(n.Manifests, "site.yaml"))
		want, _, _ := strings.Cut(blockScalars, "---\n")
		if err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("the manifest is %q, %v", text, err)
		}

		file, applied := filepath.Join(n.Manifests, "web.yaml"), filepath.Join(t.TempDir(), "web.yaml")
		secret := "---\napiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: hunter2}\n"
		if err := errors.Join(os.Chmod(file, 0o644), os.WriteFile(applied, []byte(web+secret), 0o600)); err != nil {
			t.Fatal(err)
		}
		n.CLI(0, []string{"secret/login created in " + file}, "apply", "-f", applied)
		st, err := os.Stat(file)
		if text, readErr := os.ReadFile(file); err != nil || readErr != nil || !strings.Contains(string(text), "hunter2") ||
			st.Mode().Perm() != 0o600 {
			t.Errorf("the file with the Secret is %v, %v\n%s", st, errors.Join(err, readErr), text)
		}
		n.Await("the Secret is in effect", func() error {
			_, errs, status := n.Podstead("get", "secret", "login", "--api-socket", n.Socket())
			if status != 0 {
				return errors.New(errs)
			}
			return nil
		})
		n.MustStillRun("web", pod)
	})
}
