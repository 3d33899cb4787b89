package csi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podstead/podstead/test/e2e/harness"
)

// awaitClusterVolume waits until podstead volumes has one row of a claim in the namespace default, as one of the
// cluster, with these words; and checks that the claim cannot be removed here.
func awaitClusterVolume(n *harness.Node, claim string, words ...string) {
	n.T.Helper()
	n.Await("podstead volumes has the claim "+claim, func() error {
		out, errs, status := n.Podstead("volumes", "--api-socket", n.Socket())
		var rows []string
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) > 2 && f[0] == "default" && f[1] == claim {
				rows = append(rows, line)
			}
		}
		if status != 0 || len(rows) != 1 || !slices.Contains(strings.Fields(rows[0]), "api") {
			return fmt.Errorf("status %d, rows %q: %s%s", status, rows, out, errs)
		}
		for _, word := range words {
			if !strings.Contains(rows[0], word) {
				return fmt.Errorf("no %q in %s", word, rows[0])
			}
		}
		return nil
	})
	n.CLI(1, []string{"PersistentVolumeClaim default/" + claim + " belongs to the cluster",
		"kubectl -n default delete pvc " + claim}, "volumes", "rm", claim)
}
