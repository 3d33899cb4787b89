package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/testbed"
)

// The manifests of docs/storage.md run as written: the CSI driver of the tests stands for the driver and for its
// registrar, and directories of the test for those of the host.
func TestStoragePageCSI(t *testing.T) {
	documents := pageDocuments(t, "storage.md", "A CSI driver on a standalone node")
	if len(documents) != 2 {
		t.Fatalf("docs/storage.md has %d documents", len(documents))
	}
	img, err := testbed.CSIDriverImage()
	if err != nil {
		t.Fatal(err)
	}
	ref := registry.Addr() + "/csi-driver:1"
	if err := registry.Push(ref, img); err != nil {
		t.Fatal(err)
	}
	onEachRuntime(t, func(t *testing.T, n *node) {
		data := filepath.Join(n.Dir(), "disk")
		if err := os.MkdirAll(filepath.Join(data, "volumes/database"), 0o755); err != nil {
			t.Fatal(err)
		}
		replaced := strings.NewReplacer("/var/lib/kubelet", n.Root, "/srv/disk-driver", data, "docker.io/library/busybox:1.36", testbed.BusyboxImage)
		n.writeManifest("driver.yaml", regexp.MustCompile(`image: reg.*`).ReplaceAllString(replaced.Replace(documents[0]), "image: "+ref))
		n.writeManifest("database.yaml", replaced.Replace(documents[1]))
		n.start()
		database := n.awaitRunning("database")
		n.mustContain(database, map[string]string{"cat /data/log; stat -c %g /data": "started\n1000"})
		n.mustHaveFile(filepath.Join(data, "volumes/database/log"), "started\n")
		n.cli(0, []string{"database", "disk.example.com:database"}, "volumes")
		shown := n.awaitReady("database")
		n.removeManifest("database.yaml")
		n.awaitPodDirGone(shown)
		n.awaitNoCSI()
		n.mustHaveFile(filepath.Join(data, "volumes/database/log"), "started\n")
	})
}
