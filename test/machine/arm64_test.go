package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// The package for arm64 on an arm64 machine: it is installed on Debian's kernel and containerd,
// `podstead check` finds what is missing, the session of README works, every example runs, also
// after power cuts amid changes, and a purge leaves nothing but what it reports.
func TestARM64(t *testing.T) {
	deb := debOf(t, "v0.0.1", ARM64)
	m := New(t, Options{Arch: ARM64})
	m.Start()
	if got := m.Sh("uname -m"); got != "aarch64" {
		t.Fatalf("the machine is %s", got)
	}
	m.CopyIn(deb, "/root/podstead.deb", 0o644)
	copyImages(m)
	m.Await("services have started", settle, func() error {
		_, err := m.Try("systemctl is-active multi-user.target containerd")
		return err
	})
	t.Logf("dpkg -i:\n%s", m.Sh("dpkg -i /root/podstead.deb 2>&1"))
	awaitActive(m)
	fixFindings(m, "podstead")
	m.Sh("podstead images load /root/busybox.tar")

	testSession(m)
	m.Sh("rm /etc/pods/*.yaml")
	testExamples(m)
	// A purge keeps what claims hold.
	m.Sh("rm /etc/pods/*.yaml; podstead wait --all --for=delete --timeout 10m; cd /var/lib/podstead/volumes && for " +
		"claim in */*; do podstead volumes rm $claim; done")
	testPowerCuts(m, quickChurn, lifeCuts, time.Time{})
	m.Sh("rm /etc/pods/*.yaml")
	testPurge(m)
}

// testExamples runs every example at once, and again after a power cut.
func testExamples(m *Machine) {
	t := m.t
	examples, err := filepath.Glob(filepath.Join(testbed.SourceRoot(), "examples", "*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatal("no examples", err)
	}
	for _, e := range examples {
		text, err := os.ReadFile(e)
		if err != nil {
			t.Fatal(err)
		}
		m.Write("/etc/pods/"+filepath.Base(e), string(text))
	}
	work := func() map[string]v1.Pod {
		t.Helper()
		var all map[string]v1.Pod
		m.Await("the examples run", 2*settle, func() (err error) {
			if all, err = pods(m); err != nil {
				return err
			}
			if len(all) < len(examples) {
				return fmt.Errorf("%d pods of %d examples", len(all), len(examples))
			}
			for name, p := range all {
				if !isReady(p) && p.Status.Phase != v1.PodSucceeded {
					status, _ := json.Marshal(p.Status)
					return fmt.Errorf("%s: %s", name, status)
				}
			}
			return nil
		})
		return all
	}
	before := work()
	m.PowerCut()
	m.Start()
	after := work()
	for name := range before {
		if _, ok := after[name]; !ok {
			t.Errorf("%s is gone after the power cut", name)
		}
	}
	if out := m.Sh("podstead get pods"); strings.Contains(out, "fault:") {
		t.Error(out)
	}
}
