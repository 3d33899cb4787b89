package cli

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

	"github.com/podstead/podstead/test/e2e/harness"
)

// The table of pods is followed by why pods do not work: the last words of a program, the
// failure of a probe, the command that an image does not have, and an environment that a
// change of a ConfigMap has made outdated.
func TestCausesAtFirstSight(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		settings := func(color string) string {
			return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {color: " + color + "}\n"
		}
		const image = "      image: "
		n.WriteManifest("settings.yaml", settings("red"))
		n.WriteManifest("fails.yaml", harness.ScriptPod("fails", "one", 1, "echo cannot open the database; exit 3"))
		n.WriteManifest("probed.yaml",
			strings.Replace(harness.SleepPod("probed", "one"), image,
				"      readinessProbe: {tcpSocket: {port: 8099}, periodSeconds: 1}\n"+image, 1))
		n.WriteManifest("painted.yaml",
			strings.Replace(harness.SleepPod("painted", "one"), image,
				"      envFrom: [{configMapRef: {name: settings}}]\n"+image, 1))
		n.WriteManifest("absent.yaml",
			strings.Replace(harness.SleepPod("absent", "one"), "command: [", "command: [nosuchprogram, ", 1))
		n.WriteManifest("painted.yaml.bak", "")
		n.MustStart()
		painted := n.AwaitRunning("painted")
		causes := func(words ...string) {
			t.Helper()
			n.Await("get pods shows "+strings.Join(words, ", "), func() error {
				_, errs, status := n.Podstead("get", "pods", "--api-socket", n.Socket())
				for _, word := range words {
					if status != 0 || !strings.Contains(errs, word) {
						return fmt.Errorf("no %q (status %d) in\n%s", word, status, errs)
					}
				}
				return nil
			})
		}
		causes("pod: default/fails: ", "ended with code 3: cannot open the database",
			"pod: default/probed: Readiness probe failed: dial tcp ", "nothing listens there",
			"pod: default/absent: ", `command "nosuchprogram" not found in the image; `)
		// A wait that times out has the same causes. The pod that crashes is ready for a moment at each
		// start of its container, and then such a wait succeeds.
		for name, cause := range map[string]string{"fails": "ended with code 3: cannot open the database",
			"probed": "Readiness probe failed: dial tcp "} {
			for _, args := range [][]string{{"wait", name, "--timeout=0"},
				{"apply", "-f", filepath.Join(n.Manifests, name+".yaml"), "--wait", "--timeout=1s"}} {
				n.Await(args[0]+" names the cause of "+name, func() error {
					if _, errs, code := n.Podstead(append(args, "--api-socket", n.Socket())...); code != 124 ||
						!strings.Contains(errs, cause) {
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
		taken := fmt.Sprintf("hostPort %s (TCP on 0.0.0.0) is taken from process %s (PID %d) of the host", port,
			filepath.Base(os.Args[0]), os.Getpid())
		n.WriteManifest("ported.yaml",
			strings.Replace(harness.ScriptPod("ported", "one", 1,
				"mkdir /www; echo pod > /www/index.html; exec httpd -f -p 80 -h /www"), image,
				"      ports: [{containerPort: 80, hostPort: "+port+"}]\n"+image, 1))
		n.AwaitReady("ported")
		causes("pod: default/ported: " + taken)
		n.CLI(1, []string{"Host port:", "default/ported: " + taken}, "status")
		n.CLI(0, []string{"HostPortConflict", taken}, "events", "--for", "pod/ported")
		n.Await("the pod gets the connections", func() error {
			response, err := http.Get("http://127.0.0.1:" + port + "/")
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if body, err := io.ReadAll(io.LimitReader(response.Body, 100)); string(body) != "pod\n" {
				return fmt.Errorf("%q, %w", body, err)
			}
			return nil
		})
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		// A child of this process has the listener for a moment, until it runs its program.
		n.Await("the process has closed the port", func() error {
			if _, errs, _ := n.Podstead("get", "pods", "--api-socket", n.Socket()); strings.Contains(errs, "is taken from") {
				return errors.New(errs)
			}
			return nil
		})
		n.WriteManifest("settings.yaml", settings("blue"))
		causes("pod: default/painted: container",
			"runs with a previous ConfigMap default/settings; to use the present one: podstead restart painted")
		n.CLI(1, []string{"1 entry is not read: painted.yaml.bak", "Outdated:"}, "status")
		n.CLI(0, nil, "restart", "painted", "--wait", "--timeout=10m")
		n.AwaitExec(n.AwaitOther("painted", painted), "blue", "sh", "-c", "echo $color")
		n.Await("the environment is up to date", func() error {
			if _, errs, _ := n.Podstead("get", "pods", "--api-socket", n.Socket()); strings.Contains(errs, "previous") {
				return fmt.Errorf("%s", errs)
			}
			return nil
		})
	})
}
