package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// labelledPod returns the manifest of a pod with the label app and more fields of its spec.
func labelledPod(name, app, spec string) string {
	return strings.Replace(podWithSpec(name, spec), "{name: "+name+"}", fmt.Sprintf("{name: %s, labels: {app: %s}}", name, app), 1)
}

func podTerm(kind, topologyKey, app string) string {
	return fmt.Sprintf("affinity: {%s: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: %s, labelSelector: {matchLabels: {app: %s}}}]}}", kind, topologyKey, app)
}

// Pods that require others, or exclude them, wait until those run or have ended. Without the
// node's label nothing starts, and what runs is never ended.
func TestPodAffinity(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		const host = "kubernetes.io/hostname"
		n.writeManifest("near.yaml", labelledPod("near", "near", podTerm("podAffinity", host, "db")))
		n.writeManifest("group.yaml", labelledPod("group", "group", podTerm("podAffinity", host, "group")))
		n.writeManifest("active.yaml", labelledPod("active", "gateway", ""))
		n.writeManifest("zone.yaml", labelledPod("zone", "zone", podTerm("podAffinity", "zone", "gateway")))
		n.start()
		n.awaitRunning("group")
		active := n.awaitRunning("active")
		n.awaitHeld("near", "InterPodAffinity", "podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]", "app=db")
		n.awaitHeld("zone", "InterPodAffinity", "this node has no label zone", "--node-labels=zone=VALUE")
		n.writeManifest("standby.yaml", labelledPod("standby", "gateway", podTerm("podAntiAffinity", host, "gateway")))
		n.awaitHeld("standby", "InterPodAffinity", "pod default/"+n.PodName("active"))
		n.writeManifest("db.yaml", labelledPod("db", "db", ""))
		near := n.awaitRunning("near")
		n.Args = append(n.Args, "--node-labels=zone=a")
		n.restart()
		n.awaitRunning("zone")
		n.awaitHeld("standby", "InterPodAffinity")
		n.removeManifest("db.yaml")
		n.awaitGone("db")
		n.mustStillRun("near", near)
		n.mustStillRun("active", active)
		n.removeManifest("active.yaml")
		n.awaitRunning("standby")
	})
}

// A DoNotSchedule constraint that requires more domains than this node lets maxSkew pods run.
func TestTopologySpread(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		spread := func(minDomains int) string {
			return fmt.Sprintf("topologySpreadConstraints: [{maxSkew: 1, minDomains: %d, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [app]}]", minDomains)
		}
		n.writeManifest("first.yaml", labelledPod("first", "web", spread(1)))
		n.writeManifest("second.yaml", labelledPod("second", "web", spread(1)))
		n.start()
		n.awaitRunning("first")
		n.awaitRunning("second")
		n.writeManifest("third.yaml", labelledPod("third", "web", spread(2)))
		n.awaitHeld("third", "PodTopologySpread", "2 pods that labelSelector app=web selects run on this kubernetes.io/hostname")
		n.removeManifest("first.yaml")
		n.awaitHeld("third", "PodTopologySpread", "1 pods that")
		n.removeManifest("second.yaml")
		n.awaitRunning("third")
	})
}
