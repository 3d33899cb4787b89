package docs

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/image"
	"github.com/podstead/podstead/test/screenshot"
	"github.com/podstead/podstead/test/testbed"
)

var updateScreenshot = flag.Bool("update-screenshot", false, "write docs/session.svg and the output in docs/monitor.md")

// pagesConfig is the configuration of the packages. The machines share the cgroup v1 controllers
// of the host, so the pods' cgroup is below that of the test bed, which removes it.
const pagesConfig = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nseccompDefault: " +
	"true\ncgroupRoot: /%s/pages\n" +
	"---\napiVersion: podstead.io/v1alpha1\nkind: PodsteadConfiguration\nplainHTTPRegistries: [" + pagesRegistry + "]\n"

// pagesRegistry is the registry of docs/fleet.md. It has no certificate, as oras and podstead are
// told.
const (
	pagesRegistry = "registry.example.com:5000"
	pagesOras     = "#!/bin/sh\ncommand=$1\nshift\nexec /usr/local/lib/oras $command --plain-http \"$@\"\n"
)

// pagesCurl is curl on the machine, which has none.
const pagesCurl = "#!/bin/sh\nexec busybox wget -q -O - http://$1\n"

// The commands of the pages for users do what the pages say, on a machine with systemd, and
// docs/session.svg shows what they print.
func TestTaskPages(t *testing.T) {
	t.Parallel()
	m := bootPagesMachine(t)
	m.testSession()
	for _, page := range []struct {
		name     string
		sections []string
		// want are parts of the output of a section.
		want map[string][]string
	}{
		{"write.md", []string{"Write it", "Check it", "Run it"}, map[string][]string{
			"Check it": {"periodSeconds"},
			"Run it":   {"hello-edge", "1/1", "Hello, world"},
		}},
		{"first-hour.md", []string{"Run a pod", "Look at it", "Break it", "Update it", "Lose the daemon", "Remove it"},
			map[string][]string{
				"Run a pod":       {"pod/page created", "green"},
				"Look at it":      {"1/1", "httpd", "MEMORY(bytes)"},
				"Break it":        {`did you mean "readinessProbe"?`, "green"},
				"Update it":       {"RolledBack", "it was not Ready within 20s", "green", "blue"},
				"Lose the daemon": {"1/1"},
				"Remove it":       {"blue"},
			}},
		{"jobs.md", []string{"Run one"}, map[string][]string{"Run one": {"42 rows"}}},
		{"update.md", []string{"Prepare", "Change", "Go back", "Restart without a change", "The daemon itself"},
			map[string][]string{
				"Prepare":                  {"periodSeconds: 1", "Hello, again"},
				"Change":                   {"revision", "Hello, again"},
				"Go back":                  {"timed out after 10s", "Hello, again"},
				"Restart without a change": {"hello-edge"},
				"The daemon itself":        {"1/1"},
			}},
		{"rollouts.md", []string{"Pull first", "Rollback", "Undo", "Start order"}, map[string][]string{
			"Pull first":  {"Preparing: ", "revision one", "successfully rolled out"},
			"Rollback":    {"RolledBack: ", "revision one", "in effect, ready", "it was not Ready within 30s"},
			"Undo":        {"revision two", "revision one", "Undone: "},
			"Start order": {"42 rows"},
		}},
		{"debug.md", []string{"", "The manifest", "A pod that does not start", "A container that ends",
			"A container that runs", "The daemon"}, map[string][]string{
			"":                          {"edge", "containerd"},
			"The manifest":              {"/etc/pods/typo.yaml:4", "did you mean"},
			"A pod that does not start": {"ConfigMap default/missing"},
			"A container that ends":     {"cannot open the database", "Exit Code:"},
			"A container that runs":     {"httpd", "Hello, again", "nodeName: edge"},
			"The daemon":                {"active (running)", "containerd"},
		}},
		{"secure.md", []string{"Access to the node", "Secrets", "Pods with few rights", "End the examples"},
			map[string][]string{
				"Access to the node": {"755 root /etc/pods", "660 root /run/podstead/podstead.sock", "600"},
				"Pods with few rights": {"1000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "change-me",
					"login"},
				"Secrets": {"600"},
			}},
		{"migrate.md", []string{"From docker-compose", "From a kubelet"}, map[string][]string{
			"From docker-compose": {"from compose", "rows\n", "info", "default/dbdata"},
		}},
		{"compose.md", []string{"Convert"}, map[string][]string{
			"Convert": {"services.web.ulimits: lost: ", "2 pods and 2 other objects in 1 file: valid", "from compose\n",
				"db:5432 info\n", "old rows\n"},
		}},
		{"quadlet.md", []string{"Convert"}, map[string][]string{
			"Convert": {"units/files.container:12: Container.LogDriver: lost: ", "from info\n"},
		}},
		{"workloads.md", []string{"Convert"}, map[string][]string{
			"Convert": {"-:14: Deployment my-release: spec.replicas: lost: ", "from a chart"},
		}},
		{"fleet.md", []string{"Push", "Follow", "Change", "Go back", "Stop"}, map[string][]string{
			"Push": {"Pushed"},
			"Follow": {"oci registry.example.com:5000/fleet/edge:stable: 1 pod in 1 artifact",
				"registry.example.com:5000/fleet/edge@sha256:", "first\n"},
			"Change":  {"second\n"},
			"Go back": {"first\n"},
		}},
	} {
		sections := pageSections(t, page.name)
		for _, heading := range page.sections {
			if heading == "From a kubelet" {
				m.must("mkdir -p /etc/kubernetes/manifests && cp hello.yaml /etc/kubernetes/manifests/")
			}
			if heading == "Push" {
				m.exports += "export PASSWORD=change-me\n"
			}
			out := m.section(sections[heading])
			for _, want := range page.want[heading] {
				if !strings.Contains(out, want) {
					t.Errorf("%s, %q: no %q in\n%s", page.name, heading, want, out)
				}
			}
			delete(sections, heading)
		}
		for heading := range sections {
			t.Errorf("%s: the commands of %q are not tested", page.name, heading)
		}
	}
}

// bootPagesMachine boots a machine with podstead in a network of its own.
func bootPagesMachine(t *testing.T) *kubeadmMachine {
	t.Helper()
	const number = 4 // of ConnectMachine
	gateway := harness.ConnectMachine(t, "pages", number)
	addr, err := harness.Registry.ServeOn(gateway)
	if err != nil {
		t.Fatal(err)
	}
	artifacts := &harness.ArtifactServer{T: t, Addr: net.JoinHostPort(gateway, "5000"),
		Login: image.Login{User: "fleet", Password: "change-me"}}
	artifacts.Registry.AcceptPushes = true
	artifacts.Start()
	t.Cleanup(artifacts.Stop)
	m := harness.UnpackMachineNamed(t, "edge")
	m.Options = []string{"--network-namespace-path=/run/netns/pages"}
	unit, err := os.ReadFile(filepath.Join(testbed.SourceRoot(), "examples", "podstead.service"))
	if err != nil {
		t.Fatal(err)
	}
	examples := map[string]string{}
	for _, name := range []string{"web.yaml", "ordered.yaml", "rollback.yaml"} {
		text, err := os.ReadFile(filepath.Join(testbed.SourceRoot(), "examples", name))
		if err != nil {
			t.Fatal(err)
		}
		examples["root/examples/"+name] = string(text)
	}
	m.WriteFiles(examples)
	m.WriteFiles(map[string]string{
		"etc/systemd/system/podstead.service":        string(unit),
		"etc/containerd/certs.d/_default/hosts.toml": testbed.HostsTOML(addr),
		"etc/containerd/config.toml":                 testbed.SystemContainerd16,
		"etc/cni/net.d/10-pages.conflist": `{"cniVersion": "0.4.0", "name": "pages", "plugins": [
			{"type": "bridge", "bridge": "pages0", "isGateway": true, "ipMasq": true, "hairpinMode": true, "ipam": {"type": "host-local", "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": "10.210.0.0/24"}]]}},
			{"type": "portmap", "capabilities": {"portMappings": true}}]}`,
		"etc/podstead/config.yaml": fmt.Sprintf(pagesConfig, filepath.Base(testbed.Dir())),
		"usr/local/bin/curl":       pagesCurl,
		"usr/local/bin/oras":       pagesOras,
		"etc/hosts":                "127.0.0.1 localhost edge\n" + gateway + " registry.example.com\n",
	})
	if err := errors.Join(os.Chmod(filepath.Join(m.Root, "usr/local/bin/curl"), 0o755),
		os.Chmod(filepath.Join(m.Root, "usr/local/bin/oras"), 0o755),
		os.Mkdir(filepath.Join(m.Root, "etc/pods"), 0o755)); err != nil {
		t.Fatal(err)
	}
	harness.CopyFile(t, testbed.Product(), filepath.Join(m.Root, "usr/local/bin/podstead"))
	harness.CopyFile(t, harness.OrasProgram(), filepath.Join(m.Root, "usr/local/lib/oras"))
	harness.CopyFile(t, "/usr/bin/busybox", filepath.Join(m.Root, "usr/local/bin/busybox"))
	m.Enable("podstead.service")
	t.Cleanup(m.CutPower)
	m.PowerOn()
	return &kubeadmMachine{Machine: m}
}

// sessionStep is a command of the session that README shows.
type sessionStep struct {
	command, comment string
	// check is a command that prints awaited before the next step; a user would not be faster.
	check, awaited string
}

var session = []sessionStep{
	{command: "cp examples/web.yaml /etc/pods/ && podstead wait web --for=ready", check: "curl localhost:8080",
		awaited: "Hello"},
	{command: "podstead get pods"},
	{command: "curl localhost:8080"},
	{command: "sed -i s/Hello/Hi/ /etc/pods/web.yaml && podstead wait web --for=revision",
		comment: "an edit replaces the pod", check: "curl localhost:8080", awaited: "Hi"},
	{command: "curl localhost:8080"},
	{command: "echo '  bogus: [' >> /etc/pods/web.yaml", comment: "a broken edit ends nothing", check: "podstead get pods",
		awaited: "fault: "},
	{command: "podstead get pods"},
	{command: "systemctl restart podstead", comment: "nor does a restart of the daemon", check: "podstead get pods",
		awaited: `(?s)fault: .* 1/1 | 1/1 .*fault: `},
	{command: "podstead get pods"},
	{command: "sed -i '$d' /etc/pods/web.yaml && podstead wait web --for=revision",
		comment: "the line is removed: no fault"},
	{command: "podstead get pods"},
}

// testSession runs the session of README on a terminal and compares its text with that of the
// image, apart from times.
func (m *kubeadmMachine) testSession() {
	t := m.T
	t.Helper()
	var output strings.Builder
	for _, step := range session {
		fmt.Fprintf(&output, "\x1b[2m$\x1b[0m \x1b[1m%s\x1b[0m", step.command)
		if step.comment != "" {
			fmt.Fprintf(&output, "   \x1b[2m# %s\x1b[0m", step.comment)
		}
		output.WriteString("\n" + m.onTerminal(step.command))
		if step.awaited != "" {
			harness.Await(t, step.check+" prints "+step.awaited, func() error {
				if out, err := m.shell(step.check); err != nil || !regexp.MustCompile(step.awaited).MatchString(out) {
					return fmt.Errorf("%v: %s", err, out)
				}
				return nil
			})
		}
	}
	file := filepath.Join(testbed.SourceRoot(), "docs", "session.svg")
	if *updateScreenshot {
		if err := os.WriteFile(file, screenshot.SVG("A terminal session with podstead", output.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := screenshot.Text(data)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := withoutTimes(screenshot.Plain(output.String())), withoutTimes(shown); got != want {
		t.Errorf("the commands print:\n%s\ndocs/session.svg shows (make screenshot draws it again):\n%s", got, want)
	}
	m.must("rm /etc/pods/web.yaml && podstead wait web --for=delete")
}

// onTerminal runs a command on a terminal in the machine and returns what the terminal receives.
func (m *kubeadmMachine) onTerminal(command string) string {
	m.T.Helper()
	cmd := exec.CommandContext(m.T.Context(), "nsenter", "-t", fmt.Sprint(m.PID), "-a", "--", "env", "-i", "HOME=/root",
		"TERM=xterm", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"script", "-qec", "cd /root && stty cols 96 rows 40 && "+command, "/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.T.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// times are ages and durations.
var times = regexp.MustCompile(`\b(\d+[dhms])+\b`)

// withoutTimes replaces ages and durations, and the widths of columns that depend on them.
func withoutTimes(text string) string {
	return regexp.MustCompile(` {2,}`).ReplaceAllString(times.ReplaceAllString(text, "TIME"), "  ")
}
