package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// The table of pods is followed by why pods do not work: the last words of a program, the
// failure of a probe, the command that an image does not have, and an environment that a
// change of a ConfigMap has made outdated.
func TestCausesAtFirstSight(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		settings := func(color string) string {
			return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {color: " + color + "}\n"
		}
		const image = "      image: "
		n.writeManifest("settings.yaml", settings("red"))
		n.writeManifest("fails.yaml", scriptPod("fails", "one", 1, "echo cannot open the database; exit 3"))
		n.writeManifest("probed.yaml", strings.Replace(sleepPod("probed", "one"), image, "      readinessProbe: {tcpSocket: {port: 8099}, periodSeconds: 1}\n"+image, 1))
		n.writeManifest("painted.yaml", strings.Replace(sleepPod("painted", "one"), image, "      envFrom: [{configMapRef: {name: settings}}]\n"+image, 1))
		n.writeManifest("absent.yaml", strings.Replace(sleepPod("absent", "one"), "command: [", "command: [nosuchprogram, ", 1))
		n.writeManifest("painted.yaml.bak", "")
		n.start()
		painted := n.awaitRunning("painted")
		causes := func(words ...string) {
			t.Helper()
			n.await("get pods shows "+strings.Join(words, ", "), func() error {
				_, errs, status := n.podstead("get", "pods", "--api-socket", n.Socket())
				for _, word := range words {
					if status != 0 || !strings.Contains(errs, word) {
						return fmt.Errorf("no %q (status %d) in\n%s", word, status, errs)
					}
				}
				return nil
			})
		}
		causes("pod: default/fails: ", "ended with code 3: cannot open the database", "pod: default/probed: Readiness probe failed: dial tcp ", "nothing listens there",
			"pod: default/absent: ", `command "nosuchprogram" not found in the image; `)
		n.writeManifest("settings.yaml", settings("blue"))
		causes("pod: default/painted: container", "runs with a previous ConfigMap default/settings; to use the present one: podstead restart painted")
		n.cli(1, []string{"1 entry is not read: painted.yaml.bak", "Outdated:"}, "status")
		n.cli(0, nil, "restart", "painted", "--wait", "--timeout=10m")
		n.awaitExec(n.awaitOther("painted", painted), "blue", "sh", "-c", "echo $color")
		n.await("the environment is up to date", func() error {
			if _, errs, _ := n.podstead("get", "pods", "--api-socket", n.Socket()); strings.Contains(errs, "previous") {
				return fmt.Errorf("%s", errs)
			}
			return nil
		})
	})
}
