package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// cluster compares pods that a real API server binds to the node with static pods on the same
// node: the time until their container has started, and from then until the API has the
// status.
func (b *bench) cluster() error {
	c, err := testbed.StartCluster(b.ctx, "bench-"+string(b.rt.Kind))
	if err != nil {
		return err
	}
	defer func() { _ = c.Stop() }()
	node, err := testbed.NewNode("bench-joined", b.rt.Endpoint())
	if err != nil {
		return err
	}
	kubeconfig, err := c.NodeKubeconfig(node.Name)
	if err != nil {
		return err
	}
	node.Args = append(node.Args, "--kubeconfig", kubeconfig)
	if err := node.Start(b.ctx); err != nil {
		return err
	}
	defer node.Kill()
	admin, err := c.Kubeconfig("admin", "system:masters")
	if err != nil {
		return err
	}
	api, end, err := openAPI(b.ctx, admin)
	if err != nil {
		return err
	}
	defer end()
	if err := api.create("serviceaccounts", `{"metadata": {"name": "default"}}`); err != nil {
		return err
	}
	joined := &bench{ctx: b.ctx, rt: b.rt, node: node, report: b.report, opts: b.opts}
	if err := joined.await("the node is registered",
		func() error { return api.get("/api/v1/nodes/" + node.Name) }); err != nil {
		return err
	}
	return joined.boundPods(api)
}

func (b *bench) boundPods(api *apiClient) error {
	var floor, value, shown []float64
	for range b.opts.rounds * 3 {
		static := b.names(1)
		took, err := b.podsteadStart(static)
		if err != nil {
			return err
		}
		floor = append(floor, took.Seconds())
		if err := b.podsteadRemove(static); err != nil {
			return err
		}
		name := b.names(1)[0]
		running, err := api.watchRunning(b.node.PodName(name))
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := api.create("pods", boundManifest(b.node.PodName(name), b.node.Name)); err != nil {
			return err
		}
		_, started, err := b.awaitInstance(name, "")
		if err != nil {
			return err
		}
		value = append(value, started.Sub(begin).Seconds())
		select {
		case at := <-running:
			shown = append(shown, at.Sub(started).Seconds())
		case <-time.After(patience):
			return errors.New("the API did not report that the pod runs")
		}
		if err := api.remove(b.node.PodName(name)); err != nil {
			return err
		}
		if err := b.awaitGone(name); err != nil {
			return err
		}
	}
	b.report.add(b.row("start of a pod bound by a cluster", "s"), value, floor, timesFloor(1.3))
	target := bound{}
	if b.rt.Kind == testbed.Containerd24 {
		target = atMost(0.2, "≤ 0.2 s with events")
	}
	b.report.add(b.row("delay until the API reports its start", "s"), shown, nil, target)
	return nil
}

// boundManifest returns a pod with the same spec as manifest, bound to the node.
func boundManifest(name, node string) string {
	return fmt.Sprintf(`{"metadata": {"name": %q}, "spec": {"nodeName": %q, "automountServiceAccountToken": false,
		"containers": [{"name": "main", "image": %q, "command": ["sh", "-c", %q], "env": [{"name": "WORD", "value": "one"}]}]}}`,
		name, node, testbed.BusyboxImage, script)
}

// apiClient is a client of an API server through kubectl proxy.
type apiClient struct {
	ctx  context.Context // of the benchmark
	base string
}

func openAPI(ctx context.Context, kubeconfig string) (*apiClient, func(), error) {
	cmd := exec.CommandContext(ctx, testbed.Kubectl(), "--kubeconfig", kubeconfig, "proxy", "--port=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	end := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, ok := strings.Cut(strings.TrimSpace(line), "Starting to serve on ")
	if err != nil || !ok {
		end()
		return nil, nil, fmt.Errorf("kubectl proxy says %q: %w", line, err)
	}
	return &apiClient{ctx, "http://" + address}, end, nil
}

const namespaced = "/api/v1/namespaces/default/"

func (a *apiClient) do(method, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(a.ctx, method, a.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	return resp, nil
}

func (a *apiClient) call(method, path, body string) error {
	resp, err := a.do(method, path, body)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (a *apiClient) get(path string) error { return a.call(http.MethodGet, path, "") }
func (a *apiClient) create(resource, object string) error {
	return a.call(http.MethodPost, namespaced+resource, object)
}
func (a *apiClient) remove(pod string) error {
	return a.call(http.MethodDelete, namespaced+"pods/"+pod, "")
}

// watchRunning returns the time at which the API first reports that the pod's container runs.
func (a *apiClient) watchRunning(pod string) (<-chan time.Time, error) {
	resp, err := a.do(http.MethodGet, namespaced+"pods?watch=true&fieldSelector=metadata.name="+pod, "")
	if err != nil {
		return nil, err
	}
	running := make(chan time.Time, 1)
	go func() {
		defer resp.Body.Close()
		events := json.NewDecoder(resp.Body)
		for {
			var e struct{ Object v1.Pod }
			if events.Decode(&e) != nil {
				return
			}
			for _, c := range e.Object.Status.ContainerStatuses {
				if c.State.Running != nil {
					running <- time.Now()
					return
				}
			}
		}
	}()
	return running, nil
}
