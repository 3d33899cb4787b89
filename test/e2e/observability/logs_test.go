package observability

import (
	"bufio"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podstead/podstead/test/e2e/harness"
)

// follow runs logs -f and returns its lines and a function that interrupts it.
func follow(n *harness.Node, args ...string) (lines <-chan string, interrupt func() error) {
	n.T.Helper()
	cmd := n.Command(append([]string{"logs", "-f", "--api-socket", n.Socket()}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		n.T.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		n.T.Fatal(err)
	}
	ch := make(chan string)
	ended := make(chan error, 1)
	over := n.T.Context().Done()
	go func() {
		defer close(ch)
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case ch <- s.Text():
			case <-over:
				return
			}
		}
		ended <- cmd.Wait()
	}()
	n.T.Cleanup(func() { _ = cmd.Process.Kill() })
	return ch, func() error {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			return err
		}
		return <-ended
	}
}

func mustPrint(n *harness.Node, lines <-chan string, want string) {
	n.T.Helper()
	select {
	case got, ok := <-lines:
		if got != want {
			n.T.Fatalf("logs -f prints %.100q (%v), want %.100q", got, ok, want)
		}
	case <-time.After(3 * time.Minute):
		n.T.Fatalf("logs -f does not print %.100q", want)
	}
}

// A pod's log is available under either name, can be followed across a restart, and is kept
// for the previous instance.
func TestLogs(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		// The long line is longer than what the runtime writes into one line of its log.
		script := "head -c 40000 /dev/zero | tr '\\0' x; echo; echo $WORD; trap 'exit 0' TERM; sleep 100000 & wait"
		long := strings.Repeat("x", 40000)
		n.WriteManifest("p.yaml", harness.ScriptPod("p", "one", 10, script))
		n.MustStart()
		first := n.AwaitRunning("p")
		n.AwaitReady("p")
		n.Await("both lines are printed", func() error {
			out, errs, status := n.Podstead("logs", "p", "--api-socket", n.Socket())
			if status != 0 || out != long+"\none\n" {
				return fmt.Errorf("logs exited with %d: %d bytes, %.300s%s", status, len(out), out, errs)
			}
			return nil
		})
		out, errs, status := n.Podstead("logs", n.PodName("p"), "--tail", "1", "--timestamps", "-c", "main", "--api-socket",
			n.Socket())
		if at, text, _ := strings.Cut(out, " "); status != 0 || text != "one\n" || !strings.HasPrefix(at, "20") {
			t.Errorf("logs --tail 1 --timestamps exited with %d: %.300s%s", status, out, errs)
		}
		if out, errs, status = n.Podstead("logs", "p", "-p", "--api-socket", n.Socket()); status != 1 ||
			!strings.Contains(errs, "no previous") {
			t.Errorf("logs -p before a restart exited with %d: %.300s%s", status, out, errs)
		}

		lines, interrupt := follow(n, "p")
		mustPrint(n, lines, long)
		mustPrint(n, lines, "one")
		if err := syscall.Kill(first.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		mustPrint(n, lines, long)
		mustPrint(n, lines, "one")
		if err := interrupt(); err != nil {
			t.Errorf("logs -f, interrupted, exited with %v", err)
		}
		n.Await("the log of the previous instance", func() error {
			out, errs, status = n.Podstead("logs", "p", "-p", "--tail", "1", "--api-socket", n.Socket())
			if status != 0 || out != "one\n" {
				return fmt.Errorf("logs -p exited with %d: %.300s%s", status, out, errs)
			}
			return nil
		})

		lines, _ = follow(n, "p", "--tail", "1")
		mustPrint(n, lines, "one")
		n.RemoveManifest("p.yaml")
		select {
		case line, more := <-lines:
			if more {
				t.Errorf("logs -f of a removed pod prints %.100q", line)
			}
		case <-time.After(3 * time.Minute):
			t.Error("logs -f continues after its pod was removed")
		}
	})
}

// The podstead command alone shows why a pod fails.
func TestLogsOfAFailingPod(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.ScriptPod("p", "one", 10, "echo out of luck >&2; exit 3"))
		n.WriteManifest("none.yaml", strings.Replace(harness.SleepPod("none", "one"), "image: ",
			"image: docker.io/library/none:1 #", 1))
		n.MustStart()
		n.Await("the pod is described", func() error {
			out, errs, status := n.Podstead("describe", "pod", "p", "--api-socket", n.Socket())
			for _, want := range []string{"Reason:        CrashLoopBackOff", "Last State:      Terminated", "Exit Code:     3",
				"Restart Count:   [1-9]",
				n.Manifests + "/p.yaml", "Warning", "BackOff", "Started"} {
				if status != 0 || !regexp.MustCompile(want).MatchString(out) {
					return fmt.Errorf("describe exited with %d and has no %q:\n%s%s", status, want, out, errs)
				}
			}
			return nil
		})
		for _, flag := range []string{"--tail=-1", "-p"} {
			// A restart may be in between, which has not printed yet.
			n.Await("logs "+flag+" prints what it printed", func() error {
				if out, errs, status := n.Podstead("logs", "p", flag, "--api-socket", n.Socket()); status != 0 ||
					out != "out of luck\n" {
					return fmt.Errorf("exit code %d: %s%s", status, out, errs)
				}
				return nil
			})
		}
		n.Await("the missing image is reported", func() error {
			out, errs, status := n.Podstead("get", "events", "none", "--api-socket", n.Socket())
			if status != 0 || !strings.Contains(out, "Failed") || !strings.Contains(out, "none:1") {
				return fmt.Errorf("get events exited with %d:\n%s%s", status, out, errs)
			}
			return nil
		})
		out, errs, status := n.Podstead("logs", "none", "--api-socket", n.Socket())
		if status != 1 || !strings.Contains(errs, "waiting to start") {
			t.Errorf("logs of a pod without an image exited with %d: %s%s", status, out, errs)
		}
	})
}
