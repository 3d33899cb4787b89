package spec

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// The effects of a spec, read from inside the container.
func TestContainerSeesItsSpec(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if !n.Needs("cpu", "memory") {
			return
		}
		host := filepath.Join(n.Dir(), "host")
		harness.WriteAll(t, host, map[string]string{"file": "from the host\n"})
		n.WriteManifest("p.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: p, namespace: apps, labels: {tier: front}}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
    - {name: shared, emptyDir: {}}
    - {name: dir, hostPath: {path: %[2]s, type: Directory}}
    - {name: made, hostPath: {path: %[2]s/made/below, type: DirectoryOrCreate}}
    - {name: file, hostPath: {path: %[2]s/file, type: File}}
  containers:
    - name: main
      image: %[1]s
      command: [sh, -c, 'echo to stdout; echo "$@" > /shared/args; sleep 100000', arg0]
      args: ["$(WHO) and $$(WHO)", "$(NOBODY)"]
      env:
        - {name: WHO, value: me}
        - {name: GREETING, value: "hello $(WHO)"}
      volumeMounts:
        - {name: shared, mountPath: /shared}
        - {name: dir, mountPath: /dir, readOnly: true}
        - {name: made, mountPath: /made}
        - {name: file, mountPath: /etc/one-file, readOnly: true}
      resources:
        requests: {cpu: 50m, memory: 16Mi}
        limits: {cpu: 200m, memory: 48Mi}
    - name: second
      image: %[1]s
      command: [sleep, "100000"]
      volumeMounts: [{name: shared, mountPath: /seen}]
`, testbed.BusyboxImage, host))
		n.MustStart()
		main, second := n.AwaitRunning("p"), n.AwaitContainer("p", "second")
		n.AwaitExec(main, "me and $(WHO) $(NOBODY)", "cat", "/shared/args")
		for _, c := range []struct {
			in   harness.Instance
			run  string
			want string
		}{
			{main, "cat /shared/args", "me and $(WHO) $(NOBODY)"},
			{main, "echo $GREETING", "hello me"},
			{main, "hostname", n.PodName("p")},
			{second, "hostname", n.PodName("p")},
			{second, "cat /seen/args", "me and $(WHO) $(NOBODY)"},
			{main, "stat -c %a /shared", "777"},
			{main, "cat /dir/file /etc/one-file", "from the host\nfrom the host"},
			{main, "touch /dir/x 2>/dev/null || echo read-only", "read-only"},
			{main, "touch /made/x && echo writable", "writable"},
			{main, "cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes",
				fmt.Sprint(48 << 20)},
			{main, "cut -d' ' -f1 /sys/fs/cgroup/cpu.max 2>/dev/null || cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us", "20000"},
			{main, "test -e /sys/fs/cgroup/cpu.weight || cat /sys/fs/cgroup/cpu/cpu.shares", ""},
		} {
			want := c.want
			got := n.Exec(c.in, "sh", "-c", c.run)
			if strings.Contains(c.run, "cpu.shares") && got != "" {
				want = "51" // 50m of 1024 a core
			}
			if got != want {
				t.Errorf("%s: %q, want %q", c.run, got, want)
			}
		}
		if _, err := os.Stat(filepath.Join(host, "made/below/x")); err != nil {
			t.Errorf("the created hostPath: %v", err)
		}
		p := n.AwaitReady("p")
		if p.Namespace != "apps" || p.Status.QOSClass != v1.PodQOSBurstable {
			t.Errorf("namespace %s, QoS %s, want apps and Burstable", p.Namespace, p.Status.QOSClass)
		}
		// The log is in the kubelet's place, with a link for log shippers.
		log := filepath.Join(n.PodLogs, fmt.Sprintf("apps_%s_%s", p.Name, p.UID), "main", "0.log")
		n.Await("the log has the line", func() error {
			data, err := os.ReadFile(log)
			if err == nil && !strings.Contains(string(data), "stdout F to stdout") {
				err = fmt.Errorf("%s: %q", log, data)
			}
			return err
		})
		links, _ := filepath.Glob(filepath.Join(n.ContainerLogs, p.Name+"_apps_main-*.log"))
		if len(links) != 1 {
			t.Fatalf("links to the log: %v", links)
		}
		if target, err := filepath.EvalSymlinks(links[0]); err != nil || target != log {
			t.Errorf("%s links to %s (%v), want %s", links[0], target, err, log)
		}
	})
}

func TestTerminationMessage(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", strings.Replace(harness.ScriptPod("p", "one", 1, "echo last words > "+
			"/dev/termination-log; exit 9"),
			"spec:\n", "spec:\n  restartPolicy: Never\n", 1))
		n.MustStart()
		p := n.AwaitPhase("p", v1.PodFailed)
		got := p.Status.ContainerStatuses[0].State.Terminated
		if got == nil || got.ExitCode != 9 || strings.TrimSpace(got.Message) != "last words" {
			t.Errorf("terminated as %+v, want exit code 9 and last words", got)
		}
	})
}

// Port 80 of the pod is available on a host port until the pod is removed.
func TestHostPort(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		port := harness.HostPort()
		n.WriteManifest("p.yaml", harness.ScriptPod("p", "one", 1,
			"mkdir /www; echo in the pod > /www/index.html; httpd -f -p 80 -h /www")+
			fmt.Sprintf("      ports: [{containerPort: 80, hostPort: %d}]\n", port))
		n.MustStart()
		n.AwaitPage(port, "in the pod")
		n.RemoveManifest("p.yaml")
		n.AwaitGone("p")
		if page, err := harness.Fetch(port); err == nil {
			t.Errorf("the port still answers: %q", page)
		}
	})
}

// A pod with the host's network has its ports and host name.
func TestHostNetwork(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		port := harness.HostPort()
		n.WriteManifest("p.yaml", strings.Replace(
			harness.ScriptPod("p", "one", 1,
				fmt.Sprintf("mkdir /www; echo in the host > /www/index.html; httpd -f -p %d -h /www", port)),
			"spec:\n", "spec:\n  hostNetwork: true\n", 1))
		n.MustStart()
		n.AwaitPage(port, "in the host")
		main := n.AwaitRunning("p")
		inside, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", main.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if outside, _ := os.Readlink("/proc/self/ns/net"); inside != outside {
			t.Errorf("the pod is in %s, the host in %s", inside, outside)
		}
		name, _ := os.Hostname()
		if got := n.Exec(main, "hostname"); got != name {
			t.Errorf("hostname is %q, want the host's, %q", got, name)
		}
		n.AwaitReady("p")
	})
}

// An unsupported field is rejected with its path and not dropped.
func TestUnsupportedFieldIsRejected(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", strings.Replace(harness.SleepPod("p", "one"), "spec:\n",
			"spec:\n  schedulingGates: [{name: later}]\n  resourceClaims: [{name: gpu}]\n", 1))
		n.WriteManifest("fine.yaml", harness.SleepPod("fine", "one"))
		n.MustStart()
		n.AwaitManifestError("p.yaml", "spec.schedulingGates", "spec.resourceClaims")
		n.AwaitRunning("fine")
		if _, err := n.Pod("p"); err == nil {
			t.Error("the pod exists")
		}
	})
}

// An image that cannot be pulled is reported, and pulled once it exists.
func TestImageThatComesLater(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		ref := "docker.io/library/late-" + n.Name + ":1"
		n.WriteManifest("p.yaml", strings.Replace(harness.SleepPod("p", "one"), testbed.BusyboxImage, ref, 1))
		n.WriteManifest("fine.yaml", harness.SleepPod("fine", "one"))
		n.MustStart()
		n.AwaitRunning("fine")
		n.AwaitStatus("p", "ErrImagePull or ImagePullBackOff", func(p v1.Pod) error {
			c := p.Status.ContainerStatuses
			if len(c) != 1 || c[0].State.Waiting == nil || !strings.Contains(c[0].State.Waiting.Reason, "Image") {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
		img, err := testbed.Busybox()
		if err != nil {
			t.Fatal(err)
		}
		if err := harness.Registry.Push(ref, img); err != nil {
			t.Fatal(err)
		}
		n.AwaitRunning("p")
	})
}

// A pull that never finishes does not delay other pods, and is cancelled with the pod that
// needed it.
func TestSlowPullDoesNotDelayOtherPods(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		repository := "library/slow-" + n.Name
		img, err := testbed.Busybox()
		if err != nil {
			t.Fatal(err)
		}
		if err := harness.Registry.Push("docker.io/"+repository+":1", img); err != nil {
			t.Fatal(err)
		}
		release := harness.Registry.Hold(repository)
		defer release()
		n.WriteManifest("slow.yaml", strings.Replace(harness.SleepPod("slow", "one"), testbed.BusyboxImage,
			"docker.io/"+repository+":1", 1))
		n.MustStart()
		n.AwaitStatus("slow", "waits for its image", func(p v1.Pod) error {
			c := p.Status.ContainerStatuses
			if len(c) != 1 || c[0].State.Waiting == nil {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		first := n.AwaitRunning("p")
		n.WriteManifest("p.yaml", harness.SleepPod("p", "two"))
		n.AwaitOther("p", first)
		n.RemoveManifest("p.yaml")
		n.AwaitGone("p")
		release()
		n.AwaitRunning("slow")
	})
}
