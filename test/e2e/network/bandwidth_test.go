package network

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// limitedPod is a pod with limits of its bandwidth.
func limitedPod(name string) string {
	return strings.Replace(harness.SleepPod(name, "one"), "  name: "+name+"\n",
		"  name: "+name+"\n  annotations: {kubernetes.io/ingress-bandwidth: 3M, kubernetes.io/egress-bandwidth: 5M}\n", 1)
}

// The private network of an earlier version, with a pod in it, gets the plugin: the kernel then
// limits both directions of a pod, the earlier pod keeps its address, and both end. A network
// without the plugin is reported.
func TestBandwidth(t *testing.T) {
	t.Parallel()
	harness.PrivateNetwork.Lock()
	defer harness.PrivateNetwork.Unlock()
	const kind = testbed.Containerd24
	n := harness.PrivateNode(t, kind)
	n.WriteManifest("before.yaml", harness.SleepPod("before", "one"))
	n.MustStart()
	before := n.AwaitRunning("before")
	file := filepath.Join(n.Root, "containerd/cni/net.d/10-podstead.conflist")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n.Kill()
	old := strings.Replace(string(text), ",\n    {\"type\": \"bandwidth\", \"capabilities\": {\"bandwidth\": true}}", "",
		1)
	if old == string(text) {
		t.Fatalf("no plugin in %s", text)
	}
	if err := os.WriteFile(file, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	n.MustStart()
	if now, err := os.ReadFile(file); err != nil || string(now) != string(text) {
		t.Fatalf("the network is %s (%v)", now, err)
	}
	n.WriteManifest("p.yaml", limitedPod("p"))
	n.AwaitRunning("p")
	n.Await("the kernel limits both directions", func() error {
		out, err := exec.Command("tc", "qdisc", "show").CombinedOutput()
		if err == nil && (!strings.Contains(string(out), "rate 3Mbit") || !strings.Contains(string(out), "rate 5Mbit")) {
			err = fmt.Errorf("%s", out)
		}
		return err
	})
	n.MustStillRun("before", before)
	for _, name := range []string{"p", "before"} {
		n.RemoveManifest(name + ".yaml")
		n.AwaitGone(name)
	}
	out, err := exec.Command("tc", "qdisc", "show").CombinedOutput()
	if err != nil || strings.Contains(string(out), "rate 5Mbit") {
		t.Errorf("after the end of the pod: %s (%v)", out, err)
	}
}

// On a network without the plugin the pod runs, and an event reports that nothing limits it.
func TestBandwidthWithoutPlugin(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", limitedPod("p"))
		n.MustStart()
		n.AwaitRunning("p")
		n.Await("an event for the bandwidth", func() error {
			events, err := n.Get(t.Context(), "/podstead/v1/events?pod="+n.PodName("p"))
			if err == nil && !strings.Contains(string(events), "BandwidthIgnored") {
				err = fmt.Errorf("%s", events)
			}
			return err
		})
	})
}
