package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/podinputs"
)

// bootAt makes the host one that booted that long ago, without an address.
func (b *supervisorHarness) bootAt(up time.Duration) *fakeHostIPs {
	ips, began := &fakeHostIPs{changed: make(chan struct{}, 1)}, time.Now()
	b.network.HostIPs = ips
	b.network.Uptime = func() time.Duration { return up + time.Since(began) }
	return ips
}

// After a boot a pod waits for the host's default route and starts when there is one, or half a
// minute after the boot. A daemon that starts later waits for nothing.
func TestPodsWaitForTheNetworkAfterABoot(t *testing.T) {
	for name, c := range map[string]struct {
		up, network, least, most time.Duration
	}{
		"a network": {up: 5 * time.Second, network: 10 * time.Second, least: 10 * time.Second, most: 13 * time.Second},
		"none":      {up: 5 * time.Second, least: 25 * time.Second, most: 28 * time.Second},
		"long ago":  {up: time.Hour, most: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				ips := b.bootAt(c.up)
				pod, began := testPod("web", "uid-web", "1"), time.Now()
				pod.Spec.DNSPolicy = v1.DNSNone
				d := b.start()
				d.config.deliver(manifest.SourceFile, pod)
				b.after(3 * time.Second)
				if st := d.status(pod.UID); c.least > 0 &&
					(st.Reason != podinputs.ReasonWaitingForNetwork || !strings.Contains(st.Message, "30s after the boot")) {
					t.Errorf("%s %q %q", st.Phase, st.Reason, st.Message)
				}
				if c.network > 0 {
					b.after(c.network - time.Since(began))
					ips.set("10.0.0.2")
				}
				b.runs(pod.UID)
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("started after %s, want %s to %s", took, c.least, c.most)
				}
			})
		})
	}
}

// A pod that would have no name servers for its whole life waits for those of the host, for two
// minutes after the boot. Others start.
func TestPodsWaitForNameServersAfterABoot(t *testing.T) {
	for name, configured := range map[string]time.Duration{"configured late": 50 * time.Second, "never": 0} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				file := filepath.Join(t.TempDir(), "resolv.conf")
				b.bootAt(35 * time.Second)
				b.network.DNS.ResolvConf = file
				began := time.Now()
				resolving, alone := testPod("resolving", "uid-resolving", "1"), testPod("alone", "uid-alone", "1")
				resolving.Spec.DNSPolicy, alone.Spec.DNSPolicy = v1.DNSClusterFirst, v1.DNSNone
				d := b.start()
				d.config.deliver(manifest.SourceFile, resolving, alone)
				b.runs(alone.UID)
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("the pod without name servers of the host started after %s", took)
				}
				b.after(40 * time.Second)
				if st := d.status(resolving.UID); b.running(resolving.UID) != 0 || st.Reason != podinputs.ReasonWaitingForNetwork ||
					!strings.Contains(st.Message, "no name servers") {
					t.Errorf("%s %q %q", st.Phase, st.Reason, st.Message)
				}
				least := 85 * time.Second
				if configured > 0 {
					least = configured
					b.after(configured - time.Since(began))
					if err := os.WriteFile(file, []byte("nameserver 10.0.0.1\n"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				b.runs(resolving.UID)
				if took := time.Since(began); took < least || took > least+3*time.Second {
					t.Errorf("started after %s, want %s", took, least)
				}
			})
		})
	}
}
