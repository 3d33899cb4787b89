package cli

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// composeProject is a web server with a database that has a volume. The arguments are the port
// and the image.
const composeProject = `services:
  db:
    image: %[2]s
    command: sh -c "trap 'exit 0' TERM; echo $${GREETING} $$(cat /run/secrets/token) >> /data/index.html; httpd -f -p 5432 -h /data & wait"
    environment: {GREETING: "rows of $OWNER"}
    volumes: ["dbdata:/data"]
    secrets: [token]
    healthcheck: {test: wget -q -O /dev/null http://127.0.0.1:5432/, interval: 1s, timeout: 5m}
    restart: always
  init:
    image: %[2]s
    command: [sh, -c, "date > /shared/initialised"]
    volumes: ["shared:/shared"]
  web:
    image: %[2]s
    user: "1000:1001"
    command: [sh, -c, "trap 'exit 0' TERM; httpd -f -p 8080 -h /page & wait"]
    ports: ["%[1]d:8080"]
    env_file: web.env
    environment: {LITERAL: "$$(LEVEL) $$$$"}
    volumes: ["./page:/page:ro", "shared:/shared"]
    tmpfs: ["/scratch:size=1m"]
    configs: [{source: page, target: /etc/page.conf}]
    read_only: true
    cap_drop: [ALL]
    hostname: front
    extra_hosts: ["intern:192.0.2.7"]
    stop_grace_period: 3m
    depends_on: {db: {condition: service_healthy}, init: {condition: service_completed_successfully}}
    ulimits: {nofile: 100}
    restart: always
  proxy:
    image: %[2]s
    network_mode: service:web
    command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]
    restart: always
volumes: {dbdata: , shared: }
configs: {page: {content: "listen 80"}}
secrets: {token: {file: token}}
`

// convertInto converts and applies what is converted.
func convertInto(n *harness.Node, file string, lost []string, args ...string) {
	n.T.Helper()
	out, errs, status := n.Podstead(append([]string{"convert"}, args...)...)
	if status != 0 {
		n.T.Fatalf("convert exited with %d:\n%s", status, errs)
	}
	for _, line := range lost {
		if !strings.Contains(errs, line) {
			n.T.Errorf("no %q in\n%s", line, errs)
		}
	}
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		n.T.Fatal(err)
	}
	n.CLI(0, []string{": valid"}, "validate", file)
	n.CLI(0, []string{" created in "}, "apply", "-f", file)
}

// A converted Compose project runs as docker compose would run it, as seen from inside its
// containers and from the host.
func TestConvertedCompose(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.MustStart()
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		port := harness.HostPort()
		harness.WriteAll(t, dir, map[string]string{"compose.yaml": fmt.Sprintf(composeProject, port, testbed.BusyboxImage),
			"web.env": "LEVEL=info\n", "token": "s3cret", ".env": "OWNER=edge\n"})
		harness.WriteAll(t, filepath.Join(dir, "page"), map[string]string{"index.html": "from the project\n"})
		file := filepath.Join(t.TempDir(), "shop.yaml")
		_, errs, status := n.Podstead("convert", dir, "--strict")
		if status != 1 || !strings.Contains(errs, "--strict") {
			t.Errorf("--strict exited with %d:\n%s", status, errs)
		}
		convertInto(n, file, []string{"services.web.ulimits: lost: "}, dir)
		n.AwaitReady("web")
		web, db := n.AwaitContainer("web", "web"), n.AwaitContainer("db", "db")
		n.AwaitPhase("init", "Succeeded")
		n.MustPrintIn(web, "1000 1001", "sh", "-c", "echo $(id -u) $(id -g)")
		n.MustPrintIn(web, "info $(LEVEL) $$", "sh", "-c", `echo "$LEVEL $LITERAL"`)
		n.MustPrintIn(web, "from the project", "cat", "/page/index.html")
		n.MustPrintIn(web, "listen 80", "cat", "/etc/page.conf")
		n.MustPrintIn(web, "front", "hostname")
		n.MustPrintIn(web, "1", "sh", "-c", "touch /page/x /x 2>/dev/null; ls /shared | grep -c initialised")
		n.MustPrintIn(web, "tmpfs", "sh", "-c", "grep ' /scratch ' /proc/mounts | cut -d ' ' -f 1")
		n.MustPrintIn(web, "CapBnd:\t0000000000000000", "grep", "CapBnd", "/proc/self/status")
		n.MustPrintIn(web, "192.0.2.7", "sh", "-c", "grep intern /etc/hosts | cut -f 1")
		proxy := n.AwaitContainer("web", "proxy")
		n.MustPrintIn(proxy, "from the project", "wget", "-q", "-O", "-", "http://127.0.0.1:8080/")
		client := &http.Client{Timeout: time.Minute}
		n.Await("the published port answers", func() error {
			response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d", response.StatusCode)
			}
			return nil
		})
		if started, ready := n.Started("web", "web"), n.Started("db", "db"); started.Before(ready) {
			t.Errorf("web started at %s, before db at %s", started, ready)
		}
		// The volume outlives the pod: a second start appends.
		n.MustPrintIn(db, "rows of edge s3cret", "cat", "/data/index.html")
		n.CLI(0, nil, "restart", "db", "--wait", "--timeout=10m")
		n.AwaitExec(n.AwaitContainer("db", "db"), "2", "grep", "-c", "rows of edge", "/data/index.html")
		n.CLI(0, []string{"pod/web deleted", "persistentvolumeclaim/dbdata deleted"}, "delete", "-f", file)
		n.AwaitGone("web")
		n.AwaitGone("db")
	})
}

// What helm template prints for a usual chart runs, and so does a Quadlet unit.
func TestConvertedChartAndQuadlet(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.MustStart()
		dir := t.TempDir()
		chart := filepath.Join(testbed.SourceRoot(), "cli/convert/testdata/chart/rendered.yaml")
		convertInto(n, filepath.Join(dir, "chart.yaml"),
			[]string{chart + ":63: Deployment trial-shop: spec.template.spec.serviceAccountName: lost: "}, chart)
		harness.WriteAll(t, filepath.Join(dir, "units"), map[string]string{
			"files.container": "[Container]\nImage=" + testbed.BusyboxImage + "\nExec=sh -c \"trap 'exit 0' TERM; echo $$1 > " +
				"/data/x; httpd -f -p 8080 -h /data & wait\"\nVolume=data.volume:/data\nEnvironment=\"A=two words\"\nUser=7\n" +
				"Pod=site.pod\nLogDriver=journald\n[Service]\nRestart=always\n[Install]\nWantedBy=default.target\n",
			"helper.container": "[Container]\nImage=" + testbed.BusyboxImage +
				"\nExec=sleep 100000\nPod=site.pod\nStopTimeout=0\n[Service]\nRestart=always\n",
			"site.pod":    "[Pod]\nHostName=quad\n",
			"data.volume": "[Volume]\n",
		})
		convertInto(n, filepath.Join(dir, "units.yaml"), []string{"files.container:8: Container.LogDriver: lost: "},
			filepath.Join(dir, "units"))
		n.AwaitReady("trial-shop")
		n.MustPrintIn(n.AwaitContainer("trial-shop", "shop"), "from the chart", "wget", "-q", "-O", "-", "http://127.0.0.1/")
		n.AwaitReady("site")
		n.MustPrintIn(n.AwaitContainer("site", "files"), "7 two words quad", "sh", "-c", `echo $(id -u) $A $(hostname)`)
		n.MustPrintIn(n.AwaitContainer("site", "helper"), "0", "id", "-u")
	})
}
