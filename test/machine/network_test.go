package machine

import (
	"fmt"
	"strings"
)

// A power cut that leaves the results of networks empty keeps no pod: those whose manifest was
// removed disappear with their sandboxes, and the others run again.
func testEmptyResults(m *Machine) {
	apply(m, testPod{name: "gone", revision: "1"}, testPod{name: "stays", revision: "1"})
	awaitReady(m, settle, "gone", "stays")
	m.Sh("for f in /var/lib/cni/results/*; do : >$f; done; rm /etc/pods/gone.yaml; sync")
	m.PowerCut()
	m.Start()
	awaitInstances(m, map[string]string{"stays": "1"}, settle)
	awaitReady(m, settle, "stays")
	m.Await("nothing of the other pod is left", settle, func() error {
		all, err := pods(m)
		if err != nil {
			return err
		}
		if p, ok := all["gone"]; ok {
			return fmt.Errorf("%s %s %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
		}
		if out, err := m.Try(`ctr -n k8s.io containers ls -q 'labels."io.kubernetes.pod.name"==gone-machine'`); err != nil ||
			strings.TrimSpace(out) != "" {
			return fmt.Errorf("containers %s, %v", out, err)
		}
		return nil
	})
}
