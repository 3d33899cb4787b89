package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/test/testbed"
)

// stamp is a command that writes the time since boot, in hundredths of a second, to a file of
// the host.
const stamp = "read up rest < /proc/uptime; echo $up > /v/new.$$; mv /v/new.$$ /v/"

// probedManifest returns a pod that records the time of SIGTERM, and whose probes record the
// time of the deciding result: the first failure of liveness, the first success of readiness.
func probedManifest(name, dir string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  terminationGracePeriodSeconds: 5
  volumes: [{name: v, hostPath: {path: %[2]s, type: DirectoryOrCreate}}]
  containers:
  - name: main
    image: %[3]s
    command: [sh, -c, "trap '%[4]sterm; exit 0' TERM; sleep 100000 & wait"]
    volumeMounts: [{name: v, mountPath: /v}]
    livenessProbe: {exec: {command: [sh, -c, "test ! -e /v/die || { %[4]sfailed; exit 1; }"]}, periodSeconds: 1, failureThreshold: 1}
    readinessProbe: {exec: {command: [sh, -c, "test -e /v/go && { test -e /v/ready || { %[4]sready; }; }"]}, periodSeconds: 1, failureThreshold: 1}
`, name, dir, testbed.BusyboxImage, stamp)
}

// probes measures the time from the deciding probe to its effect: SIGTERM after a liveness
// failure, the API after a readiness success.
func (b *bench) probes() error {
	var signal, shown []float64
	for _, name := range b.names(b.opts.rounds * 2) {
		dir := filepath.Join(b.node.Dir(), "v-"+name)
		if err := b.node.Write(name+".yaml", probedManifest(name, dir)); err != nil {
			return err
		}
		if _, _, err := b.awaitInstance(name, ""); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
			return err
		}
		at, err := b.awaitReady(name)
		if err != nil {
			return err
		}
		decided, err := b.awaitStamp(filepath.Join(dir, "ready"))
		if err != nil {
			return err
		}
		shown = append(shown, max(at-decided, 0))
		if err := os.WriteFile(filepath.Join(dir, "die"), nil, 0o600); err != nil {
			return err
		}
		failed, err := b.awaitStamp(filepath.Join(dir, "failed"))
		if err != nil {
			return err
		}
		terminated, err := b.awaitStamp(filepath.Join(dir, "term"))
		if err != nil {
			return err
		}
		signal = append(signal, max(terminated-failed, 0))
		if err := b.podsteadRemove([]string{name}); err != nil {
			return err
		}
	}
	b.report.add(b.row("liveness failure to SIGTERM", "s"), signal, nil, atMost(0.2, "≤ 0.2 s"))
	b.report.add(b.row("readiness success to the API", "s"), shown, nil, atMost(0.1, "≤ 0.1 s"))
	return nil
}

// awaitReady polls the API without delay until a pod is ready and returns the time, in seconds
// since boot.
func (b *bench) awaitReady(name string) (float64, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for {
		pods, err := b.node.Pods(ctx)
		if err != nil {
			return 0, err
		}
		if p := pods[name]; isReady(&p) {
			return uptime()
		}
		if err := sleep(ctx, 2*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

func isReady(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

func uptime() (float64, error) {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, err
	}
	up, _, _ := strings.Cut(string(text), " ")
	return strconv.ParseFloat(up, 64)
}

// awaitStamp waits for and returns the time that a container recorded.
func (b *bench) awaitStamp(file string) (at float64, err error) {
	err = b.await(file+" is written", func() error {
		text, err := os.ReadFile(file)
		if err == nil {
			at, err = strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		}
		return err
	})
	return at, err
}

// readyManifest returns a pod with a readiness probe each second.
func readyManifest(name string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  containers:
  - name: main
    image: %s
    command: [serve]
    readinessProbe: {exec: {command: [ready]}, periodSeconds: 1, failureThreshold: 1}
`, name, testbed.BusyboxImage)
}

// probeRecorder serves the probes on the fake runtime and counts them.
type probeRecorder struct {
	mu       sync.Mutex
	counts   map[string]int
	response int32
}

func (w *probeRecorder) exec(_ context.Context, c critest.Container,
	_ *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[c.ID]++
	return &runtimeapi.ExecSyncResponse{ExitCode: w.response}, nil
}

// begin resets the counts and sets another answer.
func (w *probeRecorder) begin(response int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts, w.response = map[string]int{}, response
}

// lost returns the number of missing probes of the containers in a period. One more or less
// comes from the limits of the period.
func (w *probeRecorder) lost(containers, seconds int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	lost := (containers - len(w.counts)) * seconds
	for _, n := range w.counts {
		lost += max(0, seconds-1-n)
	}
	return lost
}

// probeSeconds is the period in which probes are counted.
const probeSeconds = 20

// measureProbes measures the daemon with one readiness probe per second in each of many pods
// on the fake runtime.
func measureProbes(ctx context.Context, r *report, opts options) error {
	fake := critest.Start()
	defer fake.Close()
	watch := &probeRecorder{counts: map[string]int{}}
	fake.OnExec(watch.exec)
	fake.SetEvents(true)
	socket := filepath.Join(testbed.Dir(), "probes.sock")
	if err := fake.ServeUnix(socket); err != nil {
		return err
	}
	node, err := testbed.NewNode("probes", "unix://"+socket)
	if err != nil {
		return err
	}
	node.Args = []string{"--max-pods", fmt.Sprint(opts.fake)}
	for i := range opts.fake {
		name := fmt.Sprintf("p%d", i)
		if err := node.Write(name+".yaml", readyManifest(name)); err != nil {
			return err
		}
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	defer node.Kill()
	if err := awaitAll(ctx, node, opts.fake); err != nil {
		return err
	}
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	watch.begin(0)
	shares, err := cpuShares(ctx, probeSeconds*time.Second, node.Pid())
	if err != nil {
		return err
	}
	lost := watch.lost(opts.fake, probeSeconds)
	// All results change at once; two periods later every pod must be unready.
	watch.begin(1)
	if err := sleep(ctx, 2*time.Second); err != nil {
		return err
	}
	pods, err := node.Pods(ctx)
	if err != nil {
		return err
	}
	unreported := 0
	for _, p := range pods {
		if isReady(&p) {
			unreported++
		}
	}
	row := func(what, unit string) row { return row{Runtime: "fake", Name: what, Unit: unit} }
	of := fmt.Sprintf("%d probes per second", opts.fake)
	r.add(row(fmt.Sprintf("probes lost in %d s of %s", probeSeconds, of), ""), []float64{float64(lost)}, nil,
		atMost(0, "none"))
	r.add(row("results not reported after 2 s of "+of, ""), []float64{float64(unreported)}, nil, atMost(0, "none"))
	r.add(row("CPU with "+of, "% of a core"), shares, nil, bound{})
	return nil
}
