package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/testbed"
)

// linkPod prints lines, and places links to a file of the host where rotation is going to
// create its temporary files.
const linkPod = `apiVersion: v1
kind: Pod
metadata: {name: links}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: IMAGE
      command: [sh, -c, "for i in 1 2 3 4; do seq 1 1000; sleep 2; done; sleep 100000"]
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

// A container with write access to log directories cannot make the log rotation write to a
// file of the host.
func TestRotationWritesThroughNoLink(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		victim := filepath.Join(t.TempDir(), "shadow")
		if err := os.WriteFile(victim, []byte("root"), 0o600); err != nil {
			t.Fatal(err)
		}
		n.Args = []string{"--container-log-max-size", "20Ki", "--container-log-max-files", "5"}
		n.writeManifest("links.yaml", strings.NewReplacer("IMAGE", testbed.BusyboxImage, "VICTIM", victim, "LOGS", n.PodLogs).Replace(linkPod))
		n.start()
		n.awaitRunning("links")
		n.await("a rotated log is compressed, or fails to be", func() error {
			if text, err := os.ReadFile(victim); err != nil || string(text) != "root" {
				t.Fatalf("the file of the host contains %q, %v", text, err)
			}
			if log, err := os.ReadFile(n.Log()); err != nil || !strings.Contains(string(log), "Failed to compress rotated logs") {
				return fmt.Errorf("not in the log, err %v", err)
			}
			return nil
		})
	})
}
