package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
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
		// A wait that times out has the same causes. The pod that crashes is ready for a moment at each
		// start of its container, and then such a wait succeeds.
		for name, cause := range map[string]string{"fails": "ended with code 3: cannot open the database", "probed": "Readiness probe failed: dial tcp "} {
			for _, args := range [][]string{{"wait", name, "--timeout=0"}, {"apply", "-f", filepath.Join(n.Manifests, name+".yaml"), "--wait", "--timeout=1s"}} {
				n.await(args[0]+" names the cause of "+name, func() error {
					if _, errs, code := n.podstead(append(args, "--api-socket", n.Socket())...); code != 124 || !strings.Contains(errs, cause) {
						return fmt.Errorf("%d, no %q in\n%s", code, cause, errs)
					}
					return nil
				})
			}
		}
		// A process of the host has the port of a pod, which gets its connections.
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		port := fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)
		taken := fmt.Sprintf("hostPort %s (TCP on 0.0.0.0) is taken from process e2e.test (PID %d) of the host", port, os.Getpid())
		n.writeManifest("ported.yaml", strings.Replace(scriptPod("ported", "one", 1, "mkdir /www; echo pod > /www/index.html; exec httpd -f -p 80 -h /www"), image, "      ports: [{containerPort: 80, hostPort: "+port+"}]\n"+image, 1))
		n.awaitReady("ported")
		causes("pod: default/ported: " + taken)
		n.cli(1, []string{"Host port:", "default/ported: " + taken}, "status")
		n.cli(0, []string{"HostPortConflict", taken}, "events", "--for", "pod/ported")
		n.await("the pod gets the connections", func() error {
			answer, err := http.Get("http://127.0.0.1:" + port + "/")
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			if body, err := io.ReadAll(io.LimitReader(answer.Body, 100)); string(body) != "pod\n" {
				return fmt.Errorf("%q, %w", body, err)
			}
			return nil
		})
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		// A child of this process has the listener for a moment, until it runs its program.
		n.await("the process has closed the port", func() error {
			if _, errs, _ := n.podstead("get", "pods", "--api-socket", n.Socket()); strings.Contains(errs, "is taken from") {
				return errors.New(errs)
			}
			return nil
		})
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
