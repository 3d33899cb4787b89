package csi

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// The manifests of docs/csi.md run as written: the CSI driver of the tests stands for the driver and for its
// registrar, and directories of the test for those of the host.
func TestStoragePageCSI(t *testing.T) {
	documents := harness.PageDocuments(t, "csi.md", "A CSI driver on a standalone node")
	if len(documents) != 2 {
		t.Fatalf("docs/csi.md has %d documents", len(documents))
	}
	img, err := testbed.CSIDriverImage()
	if err != nil {
		t.Fatal(err)
	}
	ref := harness.Registry.Addr() + "/csi-driver:1"
	if err := harness.Registry.Push(ref, img); err != nil {
		t.Fatal(err)
	}
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		data := filepath.Join(n.Dir(), "disk")
		if err := os.MkdirAll(filepath.Join(data, "volumes/database"), 0o755); err != nil {
			t.Fatal(err)
		}
		replaced := strings.NewReplacer("/var/lib/kubelet", n.Root, "/srv/disk-driver", data,
			"docker.io/library/busybox:1.36", testbed.BusyboxImage)
		n.WriteManifest("driver.yaml",
			regexp.MustCompile(`image: reg.*`).ReplaceAllString(replaced.Replace(documents[0]), "image: "+ref))
		n.WriteManifest("database.yaml", replaced.Replace(documents[1]))
		n.MustStart()
		database := n.AwaitRunning("database")
		n.MustContain(database, map[string]string{"cat /data/log; stat -c %g /data": "started\n1000"})
		n.MustHaveFile(filepath.Join(data, "volumes/database/log"), "started\n")
		n.CLI(0, []string{"database", "disk.example.com:database"}, "volumes")
		shown := n.AwaitReady("database")
		n.RemoveManifest("database.yaml")
		n.AwaitPodDirGone(shown)
		n.AwaitNoCSI()
		n.MustHaveFile(filepath.Join(data, "volumes/database/log"), "started\n")
	})
}
