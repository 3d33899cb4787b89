package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/dns"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podstart"
)

// fakeHostIPs holds addresses that a test sets.
type fakeHostIPs struct {
	mu      sync.Mutex
	list    []string
	changed chan struct{}
}

func (f *fakeHostIPs) Addresses() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list
}

func (f *fakeHostIPs) Changed() <-chan struct{} { return f.changed }

func (f *fakeHostIPs) set(list ...string) {
	f.mu.Lock()
	f.list = list
	f.mu.Unlock()
	f.changed <- struct{}{}
}

func (d *daemon) eventsOf(pod *v1.Pod, reason string) (messages []string) {
	for _, e := range d.events.List() {
		if e.InvolvedObject.UID == pod.UID && e.Reason == reason {
			messages = append(messages, e.Message)
		}
	}
	return messages
}

// A pod that needs the node's address waits for it, others do not, and all
// statuses follow changes.
func TestHostIPIsWaitedForAndFollowed(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		ips := &fakeHostIPs{changed: make(chan struct{}, 1)}
		b.network.HostIPs = ips
		plain, asking := testPod("plain", "uid-plain", "1"), testPod("asking", "uid-asking", "1")
		plain.Spec.HostNetwork = true
		asking.Spec.Containers[0].Env = []v1.EnvVar{
			{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.hostIP"}}}}
		d := b.start()
		d.config.deliver(manifest.SourceFile, plain, asking)
		b.runs(plain.UID)
		b.after(time.Minute)
		st := d.status(asking.UID)
		if b.running(asking.UID) != 0 || st.Reason != podinputs.ReasonWaitingForHostIP ||
			!strings.Contains(st.Message, "--node-ip") {
			t.Errorf("without an address: %s %q %q", st.Phase, st.Reason, st.Message)
		}
		ran := d.ran.Load()
		b.after(time.Hour)
		// Each pod is synced about once a minute, whatever its state.
		if n := d.ran.Load() - ran; n > 2*60 {
			t.Errorf("%d syncs in an hour of waiting", n)
		}
		ips.set("10.0.0.2", "2001:db8::2")
		if took := b.runs(asking.UID); took > 10*time.Second {
			t.Errorf("started %s after there was an address", took)
		}
		check := func(want ...string) {
			t.Helper()
			b.after(time.Second)
			st := d.status(plain.UID)
			var hosts, pods []string
			for _, ip := range st.HostIPs {
				hosts = append(hosts, ip.IP)
			}
			for _, ip := range st.PodIPs {
				pods = append(pods, ip.IP)
			}
			if !slices.Equal(hosts, want) || !slices.Equal(pods, want) || st.HostIP != want[0] || st.PodIP != want[0] {
				t.Errorf("host IPs %s %v, pod IPs %s %v, want %v", st.HostIP, hosts, st.PodIP, pods, want)
			}
		}
		check("10.0.0.2", "2001:db8::2")
		writes := len(b.fake.Writes())
		ips.set("10.0.0.3")
		check("10.0.0.3")
		b.noWrites(writes)
	})
}

func TestHostsFileIsWrittenAtEachStart(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := testPod("web", "uid-web", "1")
		pod.Spec.HostAliases = []v1.HostAlias{{IP: "10.1.1.1", Hostnames: []string{"db"}}}
		own := testPod("own", "uid-own", "1")
		own.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		own.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/etc//hosts"}}
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod, own)
		b.runs(pod.UID)
		b.runs(own.UID)
		file := filepath.Join(b.dir, "pods", string(pod.UID), "etc-hosts")
		before, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(before), "\tweb") || !strings.HasSuffix(string(before), "10.1.1.1\tdb\n") {
			t.Errorf("%v\n%s", err, before)
		}
		info, _ := os.Stat(file)
		if info.Mode() != 0o644 {
			t.Errorf("mode is %s", info.Mode())
		}
		if _, err := os.Stat(filepath.Join(b.dir, "pods", string(own.UID), "etc-hosts")); err == nil {
			t.Error("a pod with its own hosts file has another one")
		}
		// A container may write to it; the next one starts with a
		// correct one.
		if err := os.WriteFile(file, append(slices.Clone(before), "6.6.6.6 bank\n"...), 0o644); err != nil {
			t.Fatal(err)
		}
		b.fake.Kill("web/app")
		b.after(time.Second)
		b.runs(pod.UID)
		if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
			t.Errorf("%v\n%s\nwant\n%s", err, after, before)
		}
		again, _ := os.Stat(file)
		if !os.SameFile(info, again) {
			t.Error("the file was replaced although it is mounted")
		}
	})
}

// DNS settings that cannot be applied cause one event per sandbox, and an
// invalid hostname holds the pod.
func TestDNSFaultsCauseEvents(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.network.DNS = dns.Settings{ResolvConf: filepath.Join(b.dir, "resolv.conf"), ClusterDomain: "cluster.local"}
		write := func(text string) {
			if err := os.WriteFile(b.network.DNS.ResolvConf, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("nameserver 10.0.0.1\n")
		fine, four, long := testPod("fine", "uid-fine", "1"), testPod("four", "uid-four", "1"),
			testPod("long", "uid-long", "1")
		four.Spec.DNSPolicy = v1.DNSDefault
		four.Spec.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"10.0.0.2", "10.0.0.3", "10.0.0.4"}}
		yes := true
		long.Spec.Subdomain, long.Spec.SetHostnameAsFQDN = strings.Repeat("s", 60), &yes
		d := b.start()
		d.config.deliver(manifest.SourceFile, fine, four, long)
		b.runs(fine.UID)
		b.runs(four.UID)
		b.after(time.Minute)
		if got := d.eventsOf(fine, "DNSConfigForming"); len(got) > 0 {
			t.Errorf("events of a plain pod: %q", got)
		}
		if got := d.eventsOf(four, "DNSConfigForming"); len(got) != 1 || !strings.Contains(got[0], "10.0.0.4 omitted") {
			t.Errorf("events: %q", got)
		}
		if st := d.status(long.UID); st.Reason != podstart.ReasonSandboxError ||
			!strings.Contains(st.Message, "setHostnameAsFQDN") || b.running(long.UID) > 0 {
			t.Errorf("a name that is too long: %s %q %q", st.Phase, st.Reason, st.Message)
		}
		for pod, want := range map[*v1.Pod]string{fine: "[10.0.0.1]", four: "[10.0.0.1 10.0.0.2 10.0.0.3]"} {
			for _, s := range b.fake.Sandboxes() {
				if got := fmt.Sprint(s.Config.DnsConfig.GetServers()); s.UID == string(pod.UID) && got != want {
					t.Errorf("%s has %s, want %s", pod.Name, got, want)
				}
			}
		}
	})
}
