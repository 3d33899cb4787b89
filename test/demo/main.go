// Command demo shows podstead with real components and leaves nothing behind: it starts a
// private container runtime and a registry on loopback in their own namespaces, copies the
// manifests of examples/ into a directory, and runs and times what a user would do next.
//
// `make demo` installs the dependencies first.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

func main() {
	testbed.Isolate(func() error {
		fmt.Println("building podstead")
		return testbed.Build()
	})
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := show(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

// demo is one daemon on one runtime.
type demo struct {
	ctx  context.Context // of the whole demo, created by main
	node *testbed.Node
	rt   *testbed.Runtime
	pods int // number of manifests in the directory
}

// patience bounds every wait.
const patience = time.Minute

func show(ctx context.Context) error {
	heading("start a private containerd and an image registry on loopback")
	begin := time.Now()
	registry, err := testbed.StartRegistry()
	if err != nil {
		return err
	}
	defer registry.Close()
	rt, err := testbed.StartRuntime(ctx, testbed.Containerd16, registry)
	if err != nil {
		return err
	}
	defer rt.Close(context.WithoutCancel(ctx))
	elapsed(begin, "containerd is ready")

	node, err := testbed.NewNode("demo", rt.Endpoint())
	if err != nil {
		return err
	}
	d := &demo{ctx: ctx, node: node, rt: rt}
	heading("start the daemon on an empty manifest directory")
	command("podstead run --pod-manifest-path pods/")
	begin = time.Now()
	if err := node.Start(ctx); err != nil {
		return err
	}
	defer node.Kill()
	elapsed(begin, "the daemon is ready")

	for _, step := range []func() error{d.start, d.edit, d.breakIt, d.crash, d.remove} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := node.Stop(); err != nil {
		return err
	}
	heading("done: all processes, mounts, networks and files are removed")
	return nil
}

// podDocument matches once in each Pod of a manifest; other objects are not counted.
var podDocument = regexp.MustCompile(`(?m)^kind: Pod$`)

// start copies the examples into the directory and waits until they are ready.
func (d *demo) start() error {
	heading("copy manifests into the directory: the pods start")
	command("cp examples/*.yaml pods/")
	begin := time.Now()
	files, err := filepath.Glob(filepath.Join(testbed.SourceRoot(), "examples", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no examples found: %w", err)
	}
	d.pods = 0
	for _, f := range files {
		content, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		d.pods += len(podDocument.FindAll(content, -1))
		if err := d.node.Write(filepath.Base(f), string(content)); err != nil {
			return err
		}
	}
	if err := d.awaitReady(); err != nil {
		return err
	}
	elapsed(begin, fmt.Sprintf("all %d pods are ready, including the image pull", d.pods))
	if err := d.podstead("get", "pods"); err != nil {
		return err
	}
	return d.curl()
}

// edit changes the web page's manifest.
func (d *demo) edit() error {
	heading("edit a manifest: its pod is replaced")
	command("sed -i 's/Hello from podstead/Hello again/' pods/web.yaml")
	file := filepath.Join(d.node.Manifests, "web.yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := d.node.Write("web.yaml",
		strings.Replace(string(content), "Hello from podstead", "Hello again", 1)); err != nil {
		return err
	}
	if err := d.await("the page changes", func() error {
		page, err := page()
		if err == nil && !strings.Contains(page, "Hello again") {
			err = fmt.Errorf("the page is %q", page)
		}
		return err
	}); err != nil {
		return err
	}
	elapsed(begin, "the new pod serves requests")
	if err := d.curl(); err != nil {
		return err
	}
	if err := d.awaitReady(); err != nil {
		return err
	}
	return d.podstead("get", "pods")
}

// breakIt writes an invalid manifest.
func (d *demo) breakIt() error {
	heading("break a manifest: the last valid revision keeps running")
	command("sed -i 's/image:/imege:/' pods/web.yaml")
	file := filepath.Join(d.node.Manifests, "web.yaml")
	good, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := d.node.Write("web.yaml", strings.ReplaceAll(string(good), "image:", "imege:")); err != nil {
		return err
	}
	if err := d.await("the error is reported", func() error {
		body, err := d.node.Get(d.ctx, "/podstead/v1/manifests")
		if err == nil && !bytes.Contains(body, []byte("imege")) {
			err = errors.New("no error yet")
		}
		return err
	}); err != nil {
		return err
	}
	// validate exits with 1, as intended.
	_ = d.podstead("validate", file)
	if err := d.curl(); err != nil {
		return err
	}
	return d.node.Write("web.yaml", string(good))
}

// crash kills the daemon.
func (d *demo) crash() error {
	heading("kill the daemon: the containers keep running, and the next daemon adopts them")
	before, err := d.pids()
	if err != nil {
		return err
	}
	command(fmt.Sprintf("kill -9 %d; podstead run ...", d.node.Pid()))
	d.node.Kill()
	begin := time.Now()
	if err := d.node.Start(d.ctx); err != nil {
		return err
	}
	if err := d.awaitReady(); err != nil {
		return err
	}
	after, err := d.pids()
	if err != nil {
		return err
	}
	if before != after {
		return fmt.Errorf("processes changed:\n%s\n%s", before, after)
	}
	elapsed(begin, "all pods are ready in the new daemon")
	output("container processes before: " + before + "\n                    after:   " + after + "\n")
	return nil
}

// remove removes all manifests.
func (d *demo) remove() error {
	heading("remove the manifests: the pods terminate")
	command("rm pods/*.yaml")
	begin := time.Now()
	files, err := filepath.Glob(filepath.Join(d.node.Manifests, "*.yaml"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	if err := d.await("all pods are removed", func() error {
		pods, err := d.node.Pods(d.ctx)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d pods are left", len(pods))
		}
		return err
	}); err != nil {
		return err
	}
	elapsed(begin, "all pods are removed")
	return d.podstead("get", "pods")
}

// awaitReady waits until the daemon reports all pods as ready.
func (d *demo) awaitReady() error {
	return d.await(fmt.Sprintf("%d pods are ready", d.pods), func() error {
		pods, err := d.node.Pods(d.ctx)
		if err != nil {
			return err
		}
		ready := 0
		for _, p := range pods {
			for _, c := range p.Status.Conditions {
				if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
					ready++
				}
			}
		}
		if ready != d.pods || len(pods) != d.pods {
			return fmt.Errorf("%d of %d pods are ready", ready, len(pods))
		}
		return nil
	})
}

// pids returns the first processes of all running containers.
func (d *demo) pids() (string, error) {
	containers, err := d.rt.CRI.Containers(d.ctx, "", "")
	if err != nil {
		return "", err
	}
	var pids []int
	for _, c := range containers {
		pid, err := d.rt.CRI.Pid(d.ctx, c.Id)
		if err != nil {
			return "", err
		}
		if pid > 0 {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return strings.Trim(fmt.Sprint(pids), "[]"), nil
}

func (d *demo) await(what string, check func() error) error {
	ctx, cancel := context.WithTimeout(d.ctx, patience)
	defer cancel()
	step := time.NewTicker(10 * time.Millisecond)
	defer step.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-step.C:
		case <-ctx.Done():
			log, _ := os.ReadFile(d.node.Log())
			return fmt.Errorf("%s: not within %v: %w\nthe daemon's log:\n%s", what, patience, err, log)
		}
	}
}

// podstead runs a command of the program and prints its output.
func (d *demo) podstead(args ...string) error {
	shown := strings.ReplaceAll(strings.Join(args, " "), d.node.Manifests, "pods")
	command("podstead " + shown)
	if args[0] != "validate" {
		args = append(args, "--api-socket", d.node.Socket())
	}
	cmd := exec.CommandContext(d.ctx, d.node.Binary, args...)
	out, err := cmd.CombinedOutput()
	output(strings.ReplaceAll(string(out), d.node.Manifests, "pods"))
	return err
}

func (d *demo) curl() error {
	command("curl http://localhost:8080/")
	text, err := page()
	output(text)
	return err
}

// page returns the page of the example web pod on its host port.
func page() (string, error) {
	c := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get("http://127.0.0.1:8080/")
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return string(body), err
}

const (
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	plain = "\x1b[0m"
)

// styled colors text on a terminal.
func styled(style, text string) string {
	if info, err := os.Stdout.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return style + text + plain
}

func heading(text string) { fmt.Println("\n" + styled(bold, "# "+text)) }
func command(text string) { fmt.Println("$ " + text) }

func elapsed(begin time.Time, what string) {
	fmt.Println(styled(dim, fmt.Sprintf("  %s after %.2f s", what, time.Since(begin).Seconds())))
}

func output(text string) {
	for line := range strings.Lines(text) {
		fmt.Print("  " + line)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		fmt.Println()
	}
}
