package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/testbed"
)

// limitedPod is a pod with limits of its bandwidth.
func limitedPod(name string) string {
	return strings.Replace(sleepPod(name, "one"), "  name: "+name+"\n", "  name: "+name+"\n  annotations: {kubernetes.io/ingress-bandwidth: 3M, kubernetes.io/egress-bandwidth: 5M}\n", 1)
}

// The private network of an earlier version, with a pod in it, gets the plugin: the kernel then
// limits both directions of a pod, the earlier pod keeps its address, and both end. A network
// without the plugin is reported.
func TestBandwidth(t *testing.T) {
	t.Parallel()
	privateNetwork.Lock()
	defer privateNetwork.Unlock()
	const kind = testbed.Containerd24
	n := privateNode(t, kind)
	n.writeManifest("before.yaml", sleepPod("before", "one"))
	n.start()
	before := n.awaitRunning("before")
	file := filepath.Join(n.Root, "containerd/cni/net.d/10-podstead.conflist")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n.Kill()
	old := strings.Replace(string(text), ",\n    {\"type\": \"bandwidth\", \"capabilities\": {\"bandwidth\": true}}", "", 1)
	if old == string(text) {
		t.Fatalf("no plugin in %s", text)
	}
	if err := os.WriteFile(file, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	n.start()
	if now, err := os.ReadFile(file); err != nil || string(now) != string(text) {
		t.Fatalf("the network is %s (%v)", now, err)
	}
	n.writeManifest("p.yaml", limitedPod("p"))
	n.awaitRunning("p")
	n.await("the kernel limits both directions", func() error {
		out, err := exec.Command("tc", "qdisc", "show").CombinedOutput()
		if err == nil && (!strings.Contains(string(out), "rate 3Mbit") || !strings.Contains(string(out), "rate 5Mbit")) {
			err = fmt.Errorf("%s", out)
		}
		return err
	})
	n.mustStillRun("before", before)
	for _, name := range []string{"p", "before"} {
		n.removeManifest(name + ".yaml")
		n.awaitGone(name)
	}
	out, err := exec.Command("tc", "qdisc", "show").CombinedOutput()
	if err != nil || strings.Contains(string(out), "rate 5Mbit") {
		t.Errorf("after the end of the pod: %s (%v)", out, err)
	}
}

// On a network without the plugin the pod runs, and an event says that nothing limits it.
func TestBandwidthWithoutPlugin(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", limitedPod("p"))
		n.start()
		n.awaitRunning("p")
		n.await("an event for the bandwidth", func() error {
			events, err := n.Get(t.Context(), "/podstead/v1/events?pod="+n.PodName("p"))
			if err == nil && !strings.Contains(string(events), "BandwidthIgnored") {
				err = fmt.Errorf("%s", events)
			}
			return err
		})
	})
}
