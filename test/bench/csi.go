package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/podstead/podstead/test/testbed"
)

// benchCSI is the CSI driver of the measurements, that of test/csidriver.
const benchCSI = "bench.csi.example.com"

// csiVolumes measures the start of a pod with the volume of a CSI driver. Beyond the start of one without,
// it may take what the driver's calls took and a little more.
func (b *bench) csiVolumes() error {
	driver, err := b.startCSI()
	if err != nil {
		return err
	}
	defer driver.calls.stop()
	plain := func(name string) string { return manifest(name, "one") }
	discard := func(time.Time, time.Duration) {}
	// The driver is registered when the first pod runs.
	if err := b.inTurn(0, 1, variant{driver.pod, discard}); err != nil {
		return err
	}
	var with, without, inDriver []float64
	for round := range 5 * b.opts.rounds {
		err := b.inTurn(round, 1,
			variant{plain, func(_ time.Time, took time.Duration) { without = append(without, took.Seconds()) }},
			variant{driver.pod, func(begin time.Time, took time.Duration) {
				with = append(with, took.Seconds())
				inDriver = append(inDriver, driver.calls.between(begin, begin.Add(took)).Seconds())
			}},
		)
		if err != nil {
			return err
		}
	}
	took := median(inDriver)
	b.report.add(b.row("start of a pod with a CSI volume (floor: without)", "s"), with, without, bound{
		fmt.Sprintf("≤ floor + %.0f ms of the driver + 50 ms", 1000*took),
		func(r row) float64 { return r.Floor + took + 0.05 },
	})
	return b.podsteadRemove([]string{driver.name})
}

// csiDriver is a CSI driver in a pod of the node.
type csiDriver struct {
	// name is that of its pod, dir the directory with its volumes.
	name, dir string
	calls     *timedCalls
}

func (b *bench) startCSI() (*csiDriver, error) {
	d := &csiDriver{name: b.names(1)[0], dir: filepath.Join(b.node.Dir(), "csi")}
	sockets := filepath.Join(b.node.Root, "plugins", benchCSI)
	for _, dir := range []string{filepath.Join(d.dir, "volumes"), sockets} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	socket, timed := filepath.Join(sockets, "csi.sock"), filepath.Join(sockets, "timed.sock")
	var err error
	if d.calls, err = timeCalls(timed, socket); err != nil {
		return nil, err
	}
	// It registers the socket at which its calls are timed.
	pod := testbed.CSIDriverPod{Name: d.name, Driver: benchCSI, Dir: d.dir, Socket: socket, Registered: timed,
		Root: b.node.Root}
	if err := b.node.Write(d.name+".yaml", pod.Manifest()); err != nil {
		d.calls.stop()
		return nil, err
	}
	if _, _, err := b.awaitInstance(d.name, ""); err != nil {
		d.calls.stop()
		return nil, err
	}
	return d, nil
}

// pod is a pod with a volume of the driver, whose directory it makes.
func (d *csiDriver) pod(name string) string {
	// Without the directory the driver finds no volume, and the start fails with its error.
	_ = os.MkdirAll(filepath.Join(d.dir, "volumes", name), 0o755)
	return withClaim(name, "storageClassName: '', volumeName: "+name) + fmt.Sprintf(`---
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, csi: {driver: %[2]s, volumeHandle: %[1]s}}
`, name, benchCSI)
}
