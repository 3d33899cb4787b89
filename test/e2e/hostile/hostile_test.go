package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

// maxMemory is what the daemon may need at its peak, in bytes, whatever a container, a client
// or a tenant does.
const maxMemory = 200 << 20

// unprivileged is the security context of the attackers' containers.
const unprivileged = "securityContext: {runAsUser: 65534, runAsGroup: 65534, runAsNonRoot: true, " +
	"allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}"

// hostileNode is a node whose daemon is attacked, with a TLS port.
type hostileNode struct {
	*harness.Node
	// address is the host and port of the TLS listener.
	address string
	// ca is the file of its certificate authority.
	ca string
}

// The tokens of the clients that have a role.
const (
	hostileReader = "reader-0123456789abcdef"
	hostileExec   = "exec-0123456789abcdef"
)

// TestHostile attacks a daemon on each runtime: from containers of an unprivileged user, as a
// client without credentials, and as a client that may use its containers. No attack may move
// the daemon above maxMemory, make it answer /healthz late, end another pod, or keep it from
// starting again while the attackers live.
func TestHostile(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		tokens := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(tokens, []byte(hostileReader+",ann,read\n"+hostileExec+",eve,exec\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		port := strconv.Itoa(harness.HostPort())
		n.Args = []string{"--port", port, "--address", "127.0.0.1", "--token-auth-file", tokens, "--container-log-max-size",
			"1Mi", "--container-log-max-files", "5"}
		h := &hostileNode{Node: n, address: "127.0.0.1:" + port, ca: filepath.Join(n.Root, "pki/servers.crt")}
		n.WriteManifest("bystander.yaml", harness.SleepPod("bystander", "x"))
		n.MustStart()
		bystander := n.AwaitRunning("bystander")
		for _, a := range hostileAttacks {
			t.Run(a.name, func(t *testing.T) {
				n := &hostileNode{Node: &harness.Node{Node: h.Node.Node, T: t, Runtime: h.Runtime}, address: h.address, ca: h.ca}
				n.resetPeak()
				a.run(n)
				n.check(a.name)
			})
		}
		if !t.Failed() {
			n.Restart()
			n.AwaitReady("bystander")
			n.MustStillRun("bystander", bystander)
			(&hostileNode{Node: n}).check("start among the attackers")
		}
	})
}

// hostileAttacks are what TestHostile does, in this order.
var hostileAttacks = []hostileAttack{
	{"clients without credentials", withoutCredentials},
	{"a container as kubelet", poseAsKubelet},
	{"links in log directories", linkLogs},
	{"loud probes", loudProbes},
	{"loud hooks", loudHooks},
	{"endless HTTP answers", endlessAnswers},
	{"termination messages", hugeMessages},
	{"an image's configuration", hostileImage},
	{"logs without line ends", floodLogs},
	{"a deep tree in a claim", deepClaim},
	{"sessions that are not read", streamsUnread},
}

type hostileAttack struct {
	name string
	run  func(n *hostileNode)
}

// check fails the test if the daemon needed too much memory since resetPeak, or is not healthy.
func (n *hostileNode) check(attack string) {
	n.T.Helper()
	peak := harness.PeakMemory(n.T, n.Pid())
	n.T.Logf("peak: %3d MiB, %s on %s", peak>>20, attack, n.Runtime.Kind)
	if peak > maxMemory {
		n.T.Errorf("the daemon needed %d MiB", peak>>20)
	}
	if _, err := n.Get(n.T.Context(), "/healthz"); err != nil {
		n.T.Error(err)
	}
}

// resetPeak makes the daemon's peak of memory that of now.
func (n *hostileNode) resetPeak() {
	n.T.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", n.Pid()), []byte("5"), 0); err != nil {
		n.T.Fatal(err)
	}
}
