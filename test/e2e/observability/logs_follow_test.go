package observability

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// A client that follows a log gets each line once, across rotations and a restart of the
// container. With kubectl too, whose response from the API simply continues.
func TestFollowOverRotationAndRestart(t *testing.T) {
	const lines, size = 5000, 4000 // of each instance: 20 MB, twice the limit of a file
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.Args = []string{"--container-log-max-size", "10Mi", "--container-log-max-files", "20"}
		script := fmt.Sprintf(`x=$(head -c %d /dev/zero | tr '\0' x); from=$(cat /v/from 2> /dev/null || echo 0)
echo $((from + %[2]d)) > /v/from
echo $from $x
until [ -e /v/go ]; do sleep 0.1; done
awk -v x=$x -v from=$from 'BEGIN { for (i = from + 1; i < from + %[2]d; i++) print i " " x }'
[ $from = 0 ] && exit 1; trap 'exit 0' TERM; sleep 100000 & wait`, size, lines)
		n.WriteManifest("p.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 2
  containers: [{name: main, image: %s, command: [sh, -c, %q], volumeMounts: [{name: v, mountPath: /v}]}]
  volumes: [{name: v, emptyDir: {}}]
`, testbed.BusyboxImage, script))
		n.MustStart()
		main := n.AwaitRunning("p")
		followers := map[string]*exec.Cmd{
			"podstead": n.Command("logs", "-f", "p", "--api-socket", n.Socket()),
			"kubectl":  harness.NewKubectl(n).Command(t.Context(), "logs", "-f", n.PodName("p")),
		}
		connected, results := make(chan error, len(followers)), make(chan error, len(followers))
		for name, cmd := range followers {
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
			go func() {
				in := bufio.NewReader(out)
				_, err := in.Peek(1)
				connected <- err
				if err := checkNumbered(in, 2*lines, size); err != nil {
					results <- fmt.Errorf("%s logs -f: %w", name, err)
					return
				}
				results <- nil
			}()
		}
		for range followers {
			if err := <-connected; err != nil {
				t.Error(err)
			}
		}
		n.Exec(main, "touch", "/v/go")
		for range followers {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		n.Await("the log was rotated", func() error {
			files, err := os.ReadDir(filepath.Join(logs(n, "p"), "main"))
			rotated := 0
			for _, f := range files {
				if !strings.HasSuffix(f.Name(), ".log") {
					rotated++
				}
			}
			if err == nil && rotated < 1 {
				err = fmt.Errorf("%d of %d files come from a rotation", rotated, len(files))
			}
			return err
		})
	})
}
