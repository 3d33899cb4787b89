package resources

import (
	"fmt"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

// labelledPod returns the manifest of a pod with the label app and more fields of its spec.
func labelledPod(name, app, spec string) string {
	return strings.Replace(harness.PodWithSpec(name, spec), "{name: "+name+"}",
		fmt.Sprintf("{name: %s, labels: {app: %s}}", name, app), 1)
}

func podTerm(kind, topologyKey, app string) string {
	return fmt.Sprintf("affinity: {%s: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: %s, "+
		"labelSelector: {matchLabels: {app: %s}}}]}}", kind, topologyKey, app)
}

// Pods that require others, or exclude them, wait until those run or have ended. Without the
// node's label nothing starts, and what runs is never ended.
func TestPodAffinity(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		const host = "kubernetes.io/hostname"
		n.WriteManifest("near.yaml", labelledPod("near", "near", podTerm("podAffinity", host, "db")))
		n.WriteManifest("group.yaml", labelledPod("group", "group", podTerm("podAffinity", host, "group")))
		n.WriteManifest("active.yaml", labelledPod("active", "gateway", ""))
		n.WriteManifest("zone.yaml", labelledPod("zone", "zone", podTerm("podAffinity", "zone", "gateway")))
		n.MustStart()
		n.AwaitRunning("group")
		active := n.AwaitRunning("active")
		n.AwaitHeld("near", "InterPodAffinity", "podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]", "app=db")
		n.AwaitHeld("zone", "InterPodAffinity", "this node has no label zone", "--node-labels=zone=VALUE")
		n.WriteManifest("standby.yaml", labelledPod("standby", "gateway", podTerm("podAntiAffinity", host, "gateway")))
		n.AwaitHeld("standby", "InterPodAffinity", "pod default/"+n.PodName("active"))
		n.WriteManifest("db.yaml", labelledPod("db", "db", ""))
		near := n.AwaitRunning("near")
		n.Args = append(n.Args, "--node-labels=zone=a")
		n.Restart()
		n.AwaitRunning("zone")
		n.AwaitHeld("standby", "InterPodAffinity")
		n.RemoveManifest("db.yaml")
		n.AwaitGone("db")
		n.MustStillRun("near", near)
		n.MustStillRun("active", active)
		n.RemoveManifest("active.yaml")
		n.AwaitRunning("standby")
	})
}

// A DoNotSchedule constraint that requires more domains than this node lets maxSkew pods run.
func TestTopologySpread(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		spread := func(minDomains int) string {
			return fmt.Sprintf("topologySpreadConstraints: [{maxSkew: 1, minDomains: %d, topologyKey: kubernetes.io/hostname, "+
				"whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [app]}]", minDomains)
		}
		n.WriteManifest("first.yaml", labelledPod("first", "web", spread(1)))
		n.WriteManifest("second.yaml", labelledPod("second", "web", spread(1)))
		n.MustStart()
		n.AwaitRunning("first")
		n.AwaitRunning("second")
		n.WriteManifest("third.yaml", labelledPod("third", "web", spread(2)))
		n.AwaitHeld("third", "PodTopologySpread",
			"2 pods that labelSelector app=web selects run on this kubernetes.io/hostname")
		n.RemoveManifest("first.yaml")
		n.AwaitHeld("third", "PodTopologySpread", "1 pods that")
		n.RemoveManifest("second.yaml")
		n.AwaitRunning("third")
	})
}
