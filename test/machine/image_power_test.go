package machine

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/test/image"
	"github.com/podstead/podstead/test/testbed"
)

// smallFiles is the number of files of a smallImage.
const smallFiles = 400

// imageCutWithin is the time after a load or pull within which the power is cut. Linux writes most of what no program
// syncs to the disk within 35 s.
const imageCutWithin = 40 * time.Second

// smallImage is an image with many small files, which differ from those of each other seed.
type smallImage struct {
	image.Image
	// sums is the digest of its file /sums, which has the digests of the others.
	sums string
}

func newSmallImage(m *Machine, seed uint64) smallImage {
	m.t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	files := []image.File{{Name: "data/"}}
	var sums bytes.Buffer
	for i := range smallFiles {
		data := make([]byte, 100+random.IntN(10_000))
		for k := range data {
			data[k] = byte(random.Uint32())
		}
		if i%40 == 0 {
			files = append(files, image.File{Name: fmt.Sprintf("data/%d/", i/40)})
		}
		name := fmt.Sprintf("data/%d/%d", i/40, i)
		files = append(files, image.File{Name: name, Data: data, Mode: 0o644})
		fmt.Fprintf(&sums, "%s  /%s\n", strings.TrimPrefix(image.Digest(data), "sha256:"), name)
	}
	files = append(files, image.File{Name: "sums", Data: sums.Bytes(), Mode: 0o644})
	img, err := testbed.BusyboxOf(m.image.Arch, m.image.busybox(), files...)
	if err != nil {
		m.t.Fatal(err)
	}
	return smallImage{img, strings.TrimPrefix(image.Digest(sums.Bytes()), "sha256:")}
}

// checkScript is a shell script that exits with 0 if each file has its content, and prints those that have not. It runs
// in the image.
func (i smallImage) checkScript() string {
	return "echo '" + i.sums + "  /sums' | /bin/busybox sha256sum -c >/dev/null && " +
		"! /bin/busybox sha256sum -c /sums 2>&1 | grep -v ': OK$'"
}

// Power cuts up to 40 s after an image with many small files was loaded or pulled, and amid it: each of its files has
// its content after the boot, as the container sees it.
func TestImagePowerCuts(t *testing.T) {
	m := newInstalled(t)
	m.Start()
	testImagePowerCuts(m, *rounds, time.Time{})
}

// The same with a private containerd 2.4, which pulls with its transfer service: that syncs nothing, whatever is set.
func TestImagePowerCutsWithTransferService(t *testing.T) {
	m := newInstalled(t)
	m.Start()
	for _, name := range []string{"containerd", "containerd-shim-runc-v2"} {
		m.CopyIn(filepath.Join(filepath.Dir(testbed.Containerd24.Binary()), name), "/usr/local/bin/"+name, 0o755)
	}
	m.Sh("systemctl mask --now containerd && systemctl stop podstead && rm -f /var/lib/podstead/runtime-endpoint && " +
		"systemctl start podstead")
	m.Await("the private containerd answers", settle, func() error {
		_, err := m.Try("podstead get nodes && test -S /run/podstead/containerd/containerd.sock")
		return err
	})
	m.Sh("/usr/local/bin/containerd --version && podstead images load --name registry.k8s.io/pause:3.10.2 /root/pause.tar")
	testImagePowerCuts(m, *rounds, time.Time{})
}

// imageCuts are the kinds of rounds of testImagePowerCuts, in their order.
var imageCuts = []struct {
	how string
	// amid: the power is cut while the image is loaded or pulled, else afterwards.
	amid bool
}{{"load", false}, {"pull", true}, {"load", true}, {"pull", false}}

// testImagePowerCuts cuts the power n times, or less often if the deadline passes meanwhile. No deadline is zero.
func testImagePowerCuts(m *Machine, n int, deadline time.Time) {
	t := m.t
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("%d power cuts after and amid loads and pulls with seed %d", n, seed)
	registry := serveImages(m)
	took := 10 * time.Second // of the last load or pull that was complete
	for round := range n {
		if round > 0 && !deadline.IsZero() && time.Now().After(deadline) {
			t.Logf("%d of %d rounds: this host is too slow for more", round, n)
			return
		}
		kind, revision := imageCuts[round%len(imageCuts)], fmt.Sprint(round+1)
		img := newSmallImage(m, seed+uint64(round))
		name, command := "registry.test/small:"+revision, "podstead images load /root/small.tar"
		if kind.how == "pull" {
			name = registry.address + "/small:" + revision
			command = "podstead images pull " + name
			if err := registry.Push(name, img.Image); err != nil {
				t.Fatal(err)
			}
		} else {
			m.CopyIn(archive(t, name, func() (image.Image, error) { return img.Image, nil }), "/root/small.tar", 0o644)
		}
		m.Sh("sync")
		var waited time.Duration
		if kind.amid {
			waited = time.Duration(random.Int64N(int64(took)))
			go func() { _, _ = m.Run(context.Background(), "sh", "-c", command) }() // until the power is cut
		} else {
			began := time.Now()
			m.Sh(command)
			took = time.Since(began)
			waited = time.Duration(random.Int64N(int64(imageCutWithin)))
		}
		time.Sleep(waited)
		m.PowerCut()
		m.Start()
		pod := testPod{name: "small", revision: revision, image: name, container: ", imagePullPolicy: Never"}
		if kind.amid && kind.how == "pull" {
			pod.container = "" // the policy of such a tag is IfNotPresent
		} else if kind.amid {
			m.Await("the daemon answers", settle, func() error { _, err := m.Try("podstead get nodes"); return err })
			m.Sh(command)
		}
		apply(m, pod)
		m.Await("the pod runs", settle, func() error { return runsRevision(m, "small", revision) })
		out, err := m.Try("podstead exec small -- sh -c \"" + img.checkScript() + "\"")
		if err != nil {
			t.Errorf("round %d: the image is damaged: %v\n%s", round+1, err, out)
		}
		t.Logf("round %d: power cut %v %s a %s: %s; incomplete images removed: %q", round+1, waited.Round(time.Millisecond),
			map[bool]string{true: "into", false: "after"}[kind.amid], kind.how, soundness(err),
			m.Sh("podstead get events | grep -o 'Removed image [^ ]*' || true"))
		m.Sh("rm /etc/pods/small.yaml && sync")
	}
}

func soundness(err error) string {
	if err != nil {
		return "damaged"
	}
	return "sound"
}

// runsRevision returns why a revision of a test pod does not run, nil if it does.
func runsRevision(m *Machine, name, revision string) error {
	got, err := instances(m)
	if err == nil && (len(got[name]) != 1 || got[name][0] != revision) {
		err = fmt.Errorf("%s runs with the revisions %q, want %q", name, got[name], revision)
	}
	return err
}

// Images that no program syncs are damaged by the same power cuts: the tests of those that podstead loads could fail.
func TestUnsyncedImagesAreDamaged(t *testing.T) {
	m := newInstalled(t)
	m.Start()
	const attempts = 8
	for round := range attempts {
		img := newSmallImage(m, rand.Uint64())
		name := fmt.Sprintf("registry.test/unsynced:%d", round+1)
		m.CopyIn(archive(t, name, func() (image.Image, error) { return img.Image, nil }), "/root/small.tar", 0o644)
		m.Sh("sync && ctr -n k8s.io images import /root/small.tar")
		// The next commit of the journal has the names of the files, while their content is written after 30 s.
		time.Sleep(7 * time.Second)
		m.PowerCut()
		m.Start()
		m.Await("containerd is active", settle, func() error { _, err := m.Try("ctr version"); return err })
		if out, err := m.Try("mkdir -p /mnt/image && ctr -n k8s.io images mount " + name + " /mnt/image"); err != nil {
			t.Logf("round %d: the image is not there: %v %s", round+1, err, out)
			continue
		}
		out, err := m.Try("chroot /mnt/image /bin/busybox sh -c \"" + img.checkScript() + "\"")
		m.Sh("umount /mnt/image")
		if err != nil {
			t.Logf("round %d: the image is damaged: %d bytes of output, such as %.200s", round+1, len(out), out)
			return
		}
		t.Logf("round %d: the image is sound", round+1)
	}
	t.Errorf("%d images that were not synced are sound", attempts)
}

// imageRegistry is a registry that the machine can pull from.
type imageRegistry struct {
	image.Registry
	// address is where the machine finds it.
	address string
}

// serveImages starts a registry, and configures the containerd of the system and a private one to pull from it.
func serveImages(m *Machine) *imageRegistry {
	m.t.Helper()
	r := &imageRegistry{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.t.Fatal(err)
	}
	r.address = fmt.Sprintf("%s:%d", hostAddress, listener.Addr().(*net.TCPAddr).Port)
	server := &http.Server{Handler: &r.Registry}
	go func() { _ = server.Serve(listener) }() // until it is closed
	m.t.Cleanup(func() { _ = server.Close() })
	for _, dir := range []string{"/etc/containerd", "/var/lib/podstead/containerd"} {
		m.Write(dir+"/certs.d/"+r.address+"/hosts.toml", testbed.HostsTOML(r.address))
	}
	m.Sh(`grep -q certs.d /etc/containerd/config.toml || printf '\n[plugins."io.containerd.grpc.v1.cri".registry]\n  ` +
		`config_path = "/etc/containerd/certs.d"\n' >>/etc/containerd/config.toml`)
	m.Sh("systemctl try-restart containerd && sync")
	m.Await("podstead is active", settle, func() error { _, err := m.Try("podstead get nodes"); return err })
	return r
}
