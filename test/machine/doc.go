// Package machine runs tests on a whole machine: QEMU without hardware support boots Debian's
// kernel, a root on ext4, systemd, logind and containerd, and its power can be cut.
//
//	m := machine.New(t)
//	m.Start()
//	m.CopyIn(testbed.Product(), "/usr/local/bin/podstead", 0o755)
//	out := m.Sh("podstead check")
//	m.PowerCut()
//	m.Start()
//
// test/setup.sh builds the disk image; each machine writes to an overlay of its own, which is
// removed with the test. A boot takes about a minute on two cores that do nothing else, and one
// machine takes both, so tests do not run in parallel.
//
// A failed test logs the end of the console and of the journal of the last boot. The journal is
// written to the host while the machine runs, so that a power cut loses none of it.
package machine
