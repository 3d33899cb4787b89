package observability

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/test/e2e/harness"
)

// checkNumbered reads lines "N xxx…" and returns an error unless they are 0 to count-1, each
// complete and none missing.
func checkNumbered(r io.Reader, count, size int) error {
	s := bufio.NewScanner(r)
	next := 0
	for ; s.Scan(); next++ {
		number, rest, _ := strings.Cut(s.Text(), " ")
		if number != fmt.Sprint(next) || len(rest) != size || strings.Trim(rest, "x") != "" {
			return fmt.Errorf("line %d is %.40q (%d bytes)", next, s.Text(), len(s.Text()))
		}
		if next == count-1 {
			return nil
		}
	}
	return fmt.Errorf("the log ends after %d of %d lines: %v", next, count, s.Err())
}

// A container prints as fast as it can while its log is rotated, and the daemon is killed
// meanwhile. No line is missing: not for a client that follows, nor for one that reads
// afterwards, nor when the files are compressed.
func TestNoLineIsLostByRotation(t *testing.T) {
	const lines, size = 20_000, 8000
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.Args = []string{"--container-log-max-size", "10Mi", "--container-log-max-files", "50"}
		// The second half waits; otherwise all of it would be printed before the daemon has
		// restarted.
		script := fmt.Sprintf(`x=$(head -c %d /dev/zero | tr '\0' x)
print() { awk -v x=$x -v from=$1 -v to=$2 'BEGIN { for (i = from; i < to; i++) print i " " x }'; }
print 0 %d; until [ -e /go ]; do sleep 0.1; done; print %d %d
trap 'exit 0' TERM; sleep 100000 & wait`, size, lines/2, lines/2, lines)
		n.WriteManifest("p.yaml", harness.ScriptPod("p", "one", 2, script))
		n.MustStart()
		main := n.AwaitRunning("p")
		var dir string
		count := func(suffix string) (found int) {
			for _, name := range names(t, dir) {
				if strings.HasSuffix(name, suffix) {
					found++
				}
			}
			return found
		}
		n.Await("the log is rotated", func() error {
			dir = filepath.Join(logs(n, "p"), "main")
			if found := len(names(t, dir)); found < 2 {
				return fmt.Errorf("%d files", found)
			}
			return nil
		})
		n.Restart()
		n.Exec(main, "touch", "/go")
		begun := time.Now()
		// The cost of a line in the runtime limits the rate: long lines reach 50 MB/s.
		follow := n.Command("logs", "-f", "p", "--api-socket", n.Socket())
		out, err := follow.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := follow.Start(); err != nil {
			t.Fatal(err)
		}
		err = checkNumbered(out, lines, size)
		took := time.Since(begun)
		_ = follow.Process.Kill()
		_ = follow.Wait()
		if err != nil {
			t.Fatalf("logs -f: %v", err)
		}
		t.Logf("the second half at %.0f MB/s, %d files", float64(lines/2*size)/took.Seconds()/1e6, len(names(t, dir)))
		n.Await("the log is within its size limit", func() error {
			info, err := os.Stat(filepath.Join(dir, "0.log"))
			if err == nil && info.Size() >= 10<<20 {
				err = fmt.Errorf("it has %d bytes", info.Size())
			}
			return err
		})
		if found := len(names(t, dir)); found < 3 {
			t.Errorf("%d MB are in only %d files", lines*size>>20, found)
		}
		read := func() {
			t.Helper()
			cmd := n.Command("logs", "p", "--api-socket", n.Socket())
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if err := checkNumbered(out, lines, size); err != nil {
				t.Errorf("logs: %v", err)
			}
			_, _ = io.Copy(io.Discard, out)
			if err := cmd.Wait(); err != nil {
				t.Errorf("logs exited with %v", err)
			}
		}
		read()
		n.Await("the older files are compressed", func() error {
			if packed, all := count(".gz"), len(names(t, dir)); packed != all-2 || packed == 0 {
				return fmt.Errorf("%d of %d files are", packed, all)
			}
			return nil
		})
		read()
		last, errs, status := n.Podstead("logs", "p", "--tail", "5000", "--api-socket", n.Socket())
		if first, _, _ := strings.Cut(last, " "); status != 0 || first != fmt.Sprint(lines-5000) {
			t.Errorf("logs --tail 5000 exited with %d and begins with %.20q: %s", status, last, errs)
		}
	})
}
