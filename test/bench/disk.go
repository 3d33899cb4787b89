package main

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/podstead/podstead/test/testbed"
)

const (
	// The number of lines of a writer, and their size in bytes. They are long because the cost
	// of a line in the runtime limits the rate, which should be at least 50 MB/s.
	writtenLines = 60_000
	writtenSize  = 8000
)

// rotation measures a container that prints 480 MB of numbered lines as fast as it can while
// its log is rotated, and counts the lines that readers miss.
func (b *bench) rotation() error {
	node, err := testbed.NewNode("rotate", b.rt.Endpoint())
	if err != nil {
		return err
	}
	node.Args = []string{"--container-log-max-size", "10Mi", "--container-log-max-files", "100"}
	if err := node.Start(b.ctx); err != nil {
		return err
	}
	defer node.Kill()
	script := fmt.Sprintf(`x=$(head -c %d /dev/zero | tr '\0' x); until [ -e /go ]; do sleep 0.1; done
awk -v x=$x 'BEGIN { for (i = 0; i < %d; i++) print i " " x }'
trap 'exit 0' TERM; sleep 100000 & wait`, writtenSize, writtenLines)
	if err := node.Write("writer.yaml", manifestOf("writer", "one", script)); err != nil {
		return err
	}
	main, _, err := b.withNode(node).awaitInstance("writer", "")
	if err != nil {
		return err
	}
	if _, err := b.rt.CRI.Exec(b.ctx, main, "touch", "/go"); err != nil {
		return err
	}
	begin := time.Now()
	follow := node.Command("logs", "-f", "writer", "--api-socket", node.Socket())
	out, err := follow.StdoutPipe()
	if err != nil {
		return err
	}
	if err := follow.Start(); err != nil {
		return err
	}
	followed, missing := missingLines(out, writtenLines)
	took := time.Since(begin)
	_ = follow.Process.Kill()
	_ = follow.Wait()
	read := node.Command("logs", "writer", "--api-socket", node.Socket())
	if out, err = read.StdoutPipe(); err != nil {
		return err
	}
	if err := read.Start(); err != nil {
		return err
	}
	afterwards, lost := missingLines(out, writtenLines)
	_ = read.Process.Kill()
	_ = read.Wait()
	files, err := filepath.Glob(filepath.Join(node.PodLogs, "*", "main", "*"))
	if err != nil {
		return err
	}
	b.report.add(b.row(fmt.Sprintf("log of %d MB rotated while it is written, followed at",
		writtenLines*writtenSize/1_000_000), "MB/s"),
		[]float64{float64(followed*writtenSize) / took.Seconds() / 1e6}, nil, bound{})
	b.report.add(b.row("files of this log", ""), []float64{float64(len(files))}, nil, bound{})
	b.report.add(b.row(fmt.Sprintf("lines missing of %d for a client that follows", writtenLines), ""),
		[]float64{float64(missing)}, nil, atMost(0, "none"))
	b.report.add(b.row(fmt.Sprintf("lines missing of %d for a client that reads afterwards", afterwards), ""),
		[]float64{float64(lost)}, nil, atMost(0, "none"))
	return b.withNode(node).podsteadRemove([]string{"writer"})
}

// missingLines reads numbered lines until the last one and returns how many were complete and
// how many are missing.
func missingLines(r io.Reader, all int) (whole, missing int) {
	s := bufio.NewScanner(r)
	next := 0
	for next < all && s.Scan() {
		var n int
		number, rest, _ := strings.Cut(s.Text(), " ")
		if _, err := fmt.Sscan(number, &n); err != nil || len(rest) != writtenSize {
			continue
		}
		whole++
		missing += max(n-next, 0)
		next = n + 1
	}
	return whole, missing + all - next
}

// withNode returns a bench with another daemon on the same runtime.
func (b *bench) withNode(node *testbed.Node) *bench {
	other := *b
	other.node = node
	return &other
}

// crashing returns a pod whose containers print and exit immediately, in a crash loop.
func crashing(name string, containers int) string {
	text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  terminationGracePeriodSeconds: 1\n  "+
		"containers:\n", name)
	for i := range containers {
		text += fmt.Sprintf("  - {name: c%d, image: %s, terminationMessagePolicy: FallbackToLogsOnError, command: [sh, -c, "+
			"\"head -c 50000 /dev/zero | tr '\\\\0' x; exit 1\"]}\n", i, testbed.BusyboxImage)
	}
	return text
}

// crashLoop measures what a crash loop leaves on the disk: everything below the daemon's and
// the runtime's directories after the first tenth of the restarts, and the maximum from then
// on.
func (b *bench) crashLoop() error {
	// Each runtime has its own node, since a node would continue with the restarts on the
	// other runtime.
	node, err := testbed.NewNode("crash-"+string(b.rt.Kind), b.rt.Endpoint())
	if err != nil {
		return err
	}
	node.Args = []string{"--max-container-restart-period", "1s"}
	if err := node.Start(b.ctx); err != nil {
		return err
	}
	defer node.Kill()
	const containers = 8
	if err := node.Write("crash.yaml", crashing("crash", containers)); err != nil {
		return err
	}
	var first, most footprint
	begin := time.Now()
	for restarts, next := 0, b.opts.restarts/10; next <= b.opts.restarts; next += max(b.opts.restarts/20, 1) {
		err := b.await(fmt.Sprintf("%d restarts", next), func() error {
			pods, err := node.Pods(b.ctx)
			if err != nil {
				return err
			}
			restarts = 0
			for _, c := range pods["crash"].Status.ContainerStatuses {
				restarts += int(c.RestartCount)
			}
			if restarts < next {
				return fmt.Errorf("%d", restarts)
			}
			return nil
		})
		if err != nil {
			return err
		}
		// The amount that the garbage collection has not removed yet varies between samples.
		now, err := b.footprint(node)
		if err != nil {
			return err
		}
		if first == (footprint{}) {
			first = now
		}
		most = most.max(now)
		progress("%d restarts in %s: %+v", restarts, time.Since(begin).Round(time.Second), now)
	}
	of := fmt.Sprintf(" over %d restarts of a crash loop of %d containers", b.opts.restarts, containers)
	b.report.add(b.row("growth of disk usage"+of, "MB"), []float64{megabytes(most.bytes - first.bytes)}, nil,
		atMost(4, "≤ 4 MB"))
	b.report.add(b.row("maximum number of log files and links"+of, ""), []float64{float64(most.logs)}, nil,
		atMost(containers*10, "≤ 10 per container"))
	b.report.add(b.row("maximum number of containers"+of, ""), []float64{float64(most.containers)}, nil,
		atMost(containers*5, "≤ 5 per container"))
	return b.withNode(node).podsteadRemove([]string{"crash"})
}

// footprint is the disk usage caused by a daemon.
type footprint struct {
	bytes            int64
	logs, containers int
}

func (f footprint) max(o footprint) footprint {
	return footprint{max(f.bytes, o.bytes), max(f.logs, o.logs), max(f.containers, o.containers)}
}

func (b *bench) footprint(node *testbed.Node) (f footprint, err error) {
	list, err := b.rt.CRI.Containers(b.ctx, "io.kubernetes.pod.name", node.PodName("crash"))
	if err != nil {
		return f, err
	}
	f.containers = len(list)
	for _, dir := range []string{node.Dir(), b.rt.Dir()} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil // it was removed meanwhile
			}
			if err != nil {
				return err
			}
			// Exclude the daemon's log, and file systems mounted for running containers.
			if path == node.Log() || d.Name() == "containerd.log" {
				return nil
			}
			if d.IsDir() && d.Name() == "rootfs" {
				return fs.SkipDir
			}
			info, err := d.Info()
			if err != nil {
				return nil // it was removed meanwhile
			}
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				f.bytes += st.Blocks * 512
			}
			if !d.IsDir() && strings.HasPrefix(path, filepath.Join(node.Dir(), "log")) {
				f.logs++
			}
			return nil
		})
		if err != nil {
			return f, err
		}
	}
	return f, nil
}
