package hostile

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// writePod writes a manifest in which IMAGE is busybox and SECURITY an unprivileged user.
func (n *hostileNode) writePod(name, manifest string) {
	n.T.Helper()
	n.WriteManifest(name+".yaml", strings.NewReplacer("IMAGE", testbed.BusyboxImage, "SECURITY", unprivileged,
		"PROGRAM", testbed.PortServer(), "ENDPOINT", n.Runtime.Endpoint(), "LOGS", n.PodLogs).Replace(manifest))
}

// kubeletPod has a process that is called kubelet, has a long command line, and names the
// runtime of podstead and a config file that never ends.
const kubeletPod = `apiVersion: v1
kind: Pod
metadata: {name: kubelet}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: main
      image: IMAGE
      command: [sh, -c, "long=$(head -c 100000 /dev/zero | tr '\\0' a); exec /kubelet --config=/dev/zero --container-runtime-endpoint=ENDPOINT $long $long $long $long $long $long $long $long $long $long"]
      SECURITY
      volumeMounts: [{name: program, mountPath: /kubelet}]
  volumes: [{name: program, hostPath: {path: PROGRAM}}]
`

// poseAsKubelet starts podstead while a container's process calls itself a kubelet.
func poseAsKubelet(n *hostileNode) {
	n.writePod("kubelet", kubeletPod)
	first := n.AwaitRunning("kubelet")
	n.Restart()
	n.AwaitReady("kubelet")
	n.MustStillRun("kubelet", first)
	if got := n.NodeEvents("KubeletConflict"); len(got) > 0 {
		n.T.Errorf("the container's process counts as a kubelet: %q", got)
	}
}

// linkPod prints lines, and places links to a file of the host where rotation is going to
// create its temporary files.
const linkPod = `apiVersion: v1
kind: Pod
metadata: {name: links}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: main
      image: IMAGE
      command: [sh, -c, "for i in 1 2 3 4; do seq 1 30000; sleep 2; done; sleep 100000"]
      SECURITY
    - name: attacker
      image: IMAGE
      command:
        - sh
        - -c
        - |
          while :; do
            for f in /logs/*_links*/main/0.log.2*; do
              case $f in *.gz*) ;; *) [ -L $f.gz.tmp ] || { rm -f $f.gz.tmp; ln -s VICTIM $f.gz.tmp; } ;; esac
            done
            sleep 0.05
          done
      volumeMounts: [{name: logs, mountPath: /logs}]
  volumes: [{name: logs, hostPath: {path: LOGS}}]
`

// linkLogs makes the log rotation meet links of a container that can write to log directories.
// No file of the host is written.
func linkLogs(n *hostileNode) {
	victim := filepath.Join(n.T.TempDir(), "shadow")
	if err := os.WriteFile(victim, []byte("root"), 0o600); err != nil {
		n.T.Fatal(err)
	}
	n.writePod("links", strings.ReplaceAll(linkPod, "VICTIM", victim))
	n.AwaitRunning("links")
	n.Await("a rotated log is compressed, or fails to be", func() error {
		if text, err := os.ReadFile(victim); err != nil || string(text) != "root" {
			n.T.Fatalf("the file of the host contains %q, %v", text, err)
		}
		if log, err := os.ReadFile(n.Log()); err != nil || !strings.Contains(string(log), "Failed to compress rotated logs") {
			return fmt.Errorf("not in the log, err %v", err)
		}
		return nil
	})
}

// podOf returns the manifest of a pod with count containers, each with fields.
func podOf(name string, count int, fields string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  terminationGracePeriodSeconds: 1\n  "+
		"containers:\n", name)
	for i := range count {
		container := "main"
		if i > 0 {
			container = fmt.Sprintf("c%d", i)
		}
		fmt.Fprintf(&b, "    - name: %s\n      image: IMAGE\n      SECURITY\n", container)
		for line := range strings.Lines(fields) {
			b.WriteString("      " + line)
		}
	}
	return b.String()
}

// loudProbes lets the commands of probes print far too much. That restarts no container.
func loudProbes(n *hostileNode) {
	const count = 10
	n.writePod("loud", podOf("loud", count, `command: [sleep, "100000"]
livenessProbe: {exec: {command: [head, -c, "15000000", /dev/zero]}, periodSeconds: 1, timeoutSeconds: 100, failureThreshold: 1}
`))
	first := n.AwaitContainer("loud", "main")
	n.AwaitEvent("loud", "Unhealthy", "print less than 256 KiB", "(container main)")
	for i := 1; i < count; i++ {
		n.AwaitEvent("loud", "Unhealthy", "print less than 256 KiB", fmt.Sprintf("(container c%d)", i))
	}
	n.MustStillRun("loud", first)
	n.RemoveManifest("loud.yaml")
}

// loudHooks lets hooks print far too much while their containers start and stop.
func loudHooks(n *hostileNode) {
	n.writePod("hooks", podOf("hooks", 10, `command: [sleep, "100000"]
lifecycle:
  postStart: {exec: {command: [head, -c, "900000", /dev/zero]}}
  preStop: {exec: {command: [head, -c, "15000000", /dev/zero]}}
`))
	n.AwaitReady("hooks")
	n.RemoveManifest("hooks.yaml")
	n.AwaitGone("hooks")
}

// endlessAnswers lets probes and hooks meet HTTP servers whose status line, headers or body
// never end.
func endlessAnswers(n *hostileNode) {
	pod := podOf("endless", 1, `command: [/server]
volumeMounts: [{name: program, mountPath: /server}]
`)
	count := 0
	for _, port := range []int{7010, 7011, 7012} {
		for range 5 {
			count++
			pod += fmt.Sprintf(`    - name: c%d
      image: IMAGE
      SECURITY
      command: [sleep, "100000"]
      readinessProbe: {httpGet: {port: %d}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 1000}
      livenessProbe: {httpGet: {port: %d}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 1000}
`, count, port, port)
		}
	}
	n.writePod("endless", pod+"  volumes: [{name: program, hostPath: {path: PROGRAM}}]\n")
	for i := range count {
		n.AwaitEvent("endless", "Unhealthy", fmt.Sprintf("(container c%d)", i+1))
	}
	n.RemoveManifest("endless.yaml")
}

// hugeMessages ends containers with termination messages of any size, and without one after
// output without a line end.
func hugeMessages(n *hostileNode) {
	const output = "head -c 3000000 /dev/zero | tr '\\\\0' a; exit 1"
	n.writePod("messages", podOf("messages", 5, `command: [sh, -c, "truncate -s 100G /dev/termination-log; `+output+`"]
`))
	n.writePod("fallback", podOf("fallback", 5, `command: [sh, -c, "`+output+`"]
terminationMessagePolicy: FallbackToLogsOnError
`))
	for _, name := range []string{"messages", "fallback"} {
		n.AwaitStatus(name, "all containers have failed", func(p v1.Pod) error {
			for _, c := range p.Status.ContainerStatuses {
				if c.LastTerminationState.Terminated == nil && c.State.Terminated == nil {
					return fmt.Errorf("%s: %+v", c.Name, c.State)
				}
			}
			return nil
		})
		n.RemoveManifest(name + ".yaml")
	}
}

// hostileImage runs an image whose configuration has megabytes of labels and variables and a
// user and a command of a megabyte. The runtime may refuse it.
func hostileImage(n *hostileNode) {
	img, err := testbed.Busybox()
	if err != nil {
		n.T.Fatal(err)
	}
	config := &img.Config
	config.Labels = map[string]string{}
	for i := range 30 {
		config.Labels[fmt.Sprintf("label-%d", i)] = strings.Repeat("l", 100_000)
		config.Env = append(config.Env, fmt.Sprintf("V%d=%s", i, strings.Repeat("v", 100_000)))
	}
	config.User = strings.Repeat("u", 1<<20)
	ref := "docker.io/library/hostile-" + n.Name + ":1"
	if err := harness.Registry.Push(ref, img); err != nil {
		n.T.Fatal(err)
	}
	n.writePod("image", strings.ReplaceAll(podOf("image", 3, "command: [sleep, \"100000\"]\n"), "IMAGE", ref))
	n.AwaitStatus("image", "it was tried to start", func(p v1.Pod) error {
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Running == nil && c.State.Terminated == nil && c.State.Waiting != nil &&
				c.State.Waiting.Reason != "ErrImagePull" && c.State.Waiting.Reason != "ImagePullBackOff" &&
				c.State.Waiting.Reason != "CreateContainerError" && c.State.Waiting.Reason != "CreateContainerConfigError" &&
				c.State.Waiting.Reason != "RunContainerError" {
				return fmt.Errorf("%s: %+v", c.Name, c.State)
			}
		}
		return nil
	})
	if _, err := n.Get(n.T.Context(), "/podstead/v1/images"); err != nil {
		n.T.Error(err)
	}
	n.RemoveManifest("image.yaml")
}

// floodPod prints a line that does not end, as fast as it can. The forged file is written again after
// each rotation, so that clients that come late have as much to read.
const floodPod = `apiVersion: v1
kind: Pod
metadata: {name: flood}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - {name: main, image: IMAGE, command: [sh, -c, "yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa | head -c 50000000 | tr -d '\\n'; sleep 100000"], SECURITY}
    - name: forger
      image: IMAGE
      command: [sh, -c, "cd /logs/*_flood*/main && while :; do [ $(wc -c < 0.log) -eq 20000040 ] || { printf '2026-01-01T00:00:00.000000000Z stdout P '; head -c 20000000 /dev/zero | tr '\\0' a; } > 0.log.forged && mv 0.log.forged 0.log; sleep 1; done"]
      volumeMounts: [{name: logs, mountPath: /logs}]
  volumes: [{name: logs, hostPath: {path: LOGS}}]
`

// floodLogs lets as many clients as the daemon admits follow logs without an end of line, which
// a container prints, or writes to the log's file itself, and read nothing of them.
func floodLogs(n *hostileNode) {
	n.writePod("flood", floodPod)
	n.AwaitReady("flood")
	n.Await("the log is forged", func() error {
		found, err := filepath.Glob(filepath.Join(n.PodLogs, "*_flood*/main/0.log"))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("%v, %v", found, err)
		}
		i, err := os.Stat(found[0])
		if err == nil && i.Size() < 1<<20 {
			err = fmt.Errorf("%d bytes", i.Size())
		}
		return err
	})
	const followers = 60
	c := n.client()
	defer c.CloseIdleConnections()
	var bodies []io.Closer
	defer func() {
		for _, body := range bodies {
			_ = body.Close()
		}
	}()
	var mu sync.Mutex
	if err := inParallel(followers, func(int) error {
		q, err := http.NewRequestWithContext(n.T.Context(), http.MethodGet,
			"https://"+n.address+"/containerLogs/default/"+n.PodName("flood")+"/main?follow=true", nil)
		if err != nil {
			return err
		}
		q.Header.Set("Authorization", "Bearer "+hostileReader)
		r, err := c.Do(q)
		if err != nil {
			return err
		}
		mu.Lock()
		bodies = append(bodies, r.Body)
		mu.Unlock()
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", r.Status)
		}
		return nil
	}); err != nil {
		n.T.Fatal(err)
	}
	// The daemon reads until the clients' connections are full.
	n.awaitFull(followers)
	n.RemoveManifest("flood.yaml")
}
