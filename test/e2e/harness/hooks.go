package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/testbed"
)

// OutDir returns a directory of the host that outlives pods. The pods of ScriptedPod mount it
// at /out, in addition to an emptyDir at /data.
func (n *Node) OutDir() string { return filepath.Join(n.Dir(), "out") }

// ScriptedContainer is a container of ScriptedPod: its script, and additional fields as YAML.
type ScriptedContainer struct{ Name, Script, Fields string }

// ScriptedPod returns the manifest of a pod with a grace period, fields of its spec as YAML,
// and containers. In their scripts and commands, and in hooks that source /out/lib, "note X"
// writes the time since boot to /out/POD-CONTAINER-X. It starts no process: a trap may have only
// two seconds.
func (n *Node) ScriptedPod(name string, grace int, spec string, parts ...ScriptedContainer) string {
	n.T.Helper()
	const lib = "note() { read up rest < /proc/uptime; echo $up > /out/$ME-$1; }\n"
	WriteAll(n.T, n.OutDir(), map[string]string{"lib": lib})
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  terminationGracePeriodSeconds: %d\n", name,
		grace)
	fmt.Fprintf(&b, "  volumes: [{name: out, hostPath: {path: %s}}, {name: data, emptyDir: {}}]\n%s\n", n.OutDir(), spec)
	list := ""
	for _, c := range parts {
		at := "containers"
		if strings.Contains(c.Fields, "restartPolicy: Always") {
			at = "initContainers"
		}
		if at != list {
			fmt.Fprintf(&b, "  %s:\n", at)
			list = at
		}
		fmt.Fprintf(&b, `    - name: %s
      image: %s
      command: ["sh", "-c", %q]
      env: [{name: ME, value: %s-%s}]
      volumeMounts: [{name: out, mountPath: /out}, {name: data, mountPath: /data}]
`, c.Name, testbed.BusyboxImage, ". /out/lib; "+c.Script, name, c.Name)
		for line := range strings.Lines(c.Fields) {
			b.WriteString("      " + strings.TrimRight(line, "\n") + "\n")
		}
	}
	return b.String()
}

// RecordedAt returns when a container recorded an event, in seconds since boot, and false if
// it has not.
func (n *Node) RecordedAt(what string) (float64, bool) {
	n.T.Helper()
	text, err := os.ReadFile(filepath.Join(n.OutDir(), what))
	if err != nil || !strings.HasSuffix(string(text), "\n") {
		return 0, false // or it is being written
	}
	at, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil {
		n.T.Fatalf("%s: %v", what, err)
	}
	return at, true
}

// AwaitRecorded waits until a container has recorded an event and returns its time.
func (n *Node) AwaitRecorded(what string) float64 {
	n.T.Helper()
	var at float64
	n.Await(what+" is recorded", func() error {
		var ok bool
		if at, ok = n.RecordedAt(what); !ok {
			return errors.New("not yet")
		}
		return nil
	})
	return at
}

// Started returns when the runtime started a running container.
func (n *Node) Started(pod, container string) time.Time {
	n.T.Helper()
	st, err := n.Runtime.CRI.Runtime.ContainerStatus(n.T.Context(),
		&runtimeapi.ContainerStatusRequest{ContainerId: n.AwaitContainer(pod, container).ID})
	if err != nil {
		n.T.Fatal(err)
	}
	return time.Unix(0, st.Status.StartedAt)
}

// Lines returns the number of lines of a file in OutDir.
func (n *Node) Lines(file string) int {
	text, _ := os.ReadFile(filepath.Join(n.OutDir(), file))
	return strings.Count(string(text), "\n")
}
