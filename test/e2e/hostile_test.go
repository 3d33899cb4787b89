package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// maxMemory is what the daemon may need at its peak, in bytes, whatever a container, a client
// or a tenant does.
const maxMemory = 200 << 20

// unprivileged is the security context of the attackers' containers.
const unprivileged = "securityContext: {runAsUser: 65534, runAsGroup: 65534, runAsNonRoot: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}"

// hostileNode is a node whose daemon is attacked, with a TLS port.
type hostileNode struct {
	*node
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
	onEachRuntime(t, func(t *testing.T, n *node) {
		tokens := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(tokens, []byte(hostileReader+",ann,read\n"+hostileExec+",eve,exec\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		port := strconv.Itoa(hostPort())
		n.Args = []string{"--port", port, "--address", "127.0.0.1", "--token-auth-file", tokens, "--container-log-max-size", "1Mi", "--container-log-max-files", "5"}
		h := &hostileNode{node: n, address: "127.0.0.1:" + port, ca: filepath.Join(n.Root, "pki/servers.crt")}
		n.writeManifest("bystander.yaml", sleepPod("bystander", "x"))
		n.start()
		bystander := n.awaitRunning("bystander")
		for _, a := range hostileAttacks {
			t.Run(a.name, func(t *testing.T) {
				n := &hostileNode{node: &node{Node: h.Node, t: t, rt: h.rt}, address: h.address, ca: h.ca}
				n.resetPeak()
				a.run(n)
				n.check(a.name)
			})
		}
		if !t.Failed() {
			n.restart()
			n.awaitReady("bystander")
			n.mustStillRun("bystander", bystander)
			(&hostileNode{node: n}).check("start among the attackers")
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
	{"sessions that are not read", streamsUnread},
}

type hostileAttack struct {
	name string
	run  func(n *hostileNode)
}

// check fails the test if the daemon needed too much memory since resetPeak, or is not healthy.
func (n *hostileNode) check(attack string) {
	n.t.Helper()
	peak := peakMemory(n.t, n.Pid())
	n.t.Logf("peak: %3d MiB, %s on %s", peak>>20, attack, n.rt.Kind)
	if peak > maxMemory {
		n.t.Errorf("the daemon needed %d MiB", peak>>20)
	}
	if _, err := n.Get(n.t.Context(), "/healthz"); err != nil {
		n.t.Error(err)
	}
}

// resetPeak makes the daemon's peak of memory that of now.
func (n *hostileNode) resetPeak() {
	n.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", n.Pid()), []byte("5"), 0); err != nil {
		n.t.Fatal(err)
	}
}

// peakMemory returns the most resident memory that a process has had, in bytes.
func peakMemory(t *testing.T, pid int) (bytes int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			if _, err := fmt.Sscanf(rest, "%d kB", &bytes); err != nil {
				t.Fatal(err)
			}
		}
	}
	return bytes << 10
}
