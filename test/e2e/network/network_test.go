package network

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
)

func TestHostnames(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.Args = []string{"--cluster-domain", "cluster.test"}
		long := strings.Repeat("long-name-", 6) + "ab-" // it is truncated after a dash
		n.WriteManifest("own.yaml", harness.IdlePod("own", "hostname: front\nsubdomain: shop"))
		n.WriteManifest("fqdn.yaml", harness.IdlePod("fqdn", "hostname: front\nsubdomain: shop\nsetHostnameAsFQDN: true"))
		n.WriteManifest("over.yaml", harness.IdlePod("over", "hostname: front\nhostnameOverride: db-0.example.test"))
		n.WriteManifest("long.yaml", harness.IdlePod(long+"x", ""))
		n.WriteManifest("toolong.yaml",
			harness.IdlePod("toolong", "subdomain: "+strings.Repeat("s", 60)+"\nsetHostnameAsFQDN: true"))
		n.MustStart()
		for name, want := range map[string]string{
			"own": "front", "fqdn": "front.shop.default.svc.cluster.test", "over": "db-0.example.test", long + "x": long[:62],
		} {
			main := n.AwaitRunning(name)
			n.MustPrintIn(main, want, "cat", "/proc/sys/kernel/hostname")
			n.MustPrintIn(main, want, "sh", "-c", "echo $HOSTNAME")
		}
		hosts := n.Exec(n.AwaitRunning("fqdn"), "cat", "/etc/hosts")
		if want := "\tfront.shop.default.svc.cluster.test\tfront"; !strings.Contains(hosts, want) {
			t.Errorf("/etc/hosts is\n%s\nwithout %q", hosts, want)
		}
		n.AwaitStatus("toolong", "reports that the name is too long", func(p v1.Pod) error {
			if p.Status.Reason != "CreatePodSandboxError" || !strings.Contains(p.Status.Message, "setHostnameAsFQDN") {
				return fmt.Errorf("%s %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
			}
			return nil
		})
	})
}

func TestHostsFile(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		const aliases = "hostAliases:\n- {ip: 10.9.8.7, hostnames: [db, db.shop.test]}\n- {ip: \"fd00::7\", hostnames: [six]}"
		const tail = "\n\n# Entries added by HostAliases.\n10.9.8.7\tdb\tdb.shop.test\nfd00::7\tsix"
		host := filepath.Join(n.Dir(), "hosts")
		harness.WriteAll(t, n.Dir(), map[string]string{"hosts": "10.0.0.1 mine\n"})
		n.WriteManifest("p.yaml", harness.IdlePod("p", aliases))
		n.WriteManifest("host.yaml", harness.IdlePod("host", "hostNetwork: true\n"+aliases))
		n.WriteManifest("own.yaml", harness.IdlePod("own", aliases+"\nvolumes: [{name: hosts, hostPath: {path: "+host+"}}]")+
			"      volumeMounts: [{name: hosts, mountPath: /etc/hosts}]\n")
		n.MustStart()
		main := n.AwaitRunning("p")
		ip := n.AwaitReady("p").Status.PodIP
		if ip == "" || !strings.Contains(n.Exec(main, "ip", "addr"), ip+"/") {
			t.Errorf("the status has the address %q, which the pod does not have", ip)
		}
		before := n.Exec(main, "cat", "/etc/hosts")
		want := ip + "\t" + n.PodName("p") + tail
		if !strings.HasPrefix(before, "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n") ||
			!strings.HasSuffix(before, want) {
			t.Errorf("/etc/hosts is\n%s\nwant it to end in\n%s", before, want)
		}
		// A container may write to it; the next instance gets a new one.
		n.Exec(main, "sh", "-c", "echo 6.6.6.6 bank >> /etc/hosts; grep -q bank /etc/hosts")
		if err := syscall.Kill(main.Pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		main = n.AwaitOther("p", main)
		n.MustPrintIn(main, before, "cat", "/etc/hosts")

		nodes, err := os.ReadFile("/etc/hosts")
		if err != nil {
			t.Fatal(err)
		}
		n.MustPrintIn(n.AwaitRunning("host"),
			"# Kubernetes-managed hosts file (host network).\n"+strings.TrimRight(string(nodes), "\n")+tail, "cat", "/etc/hosts")
		n.MustPrintIn(n.AwaitRunning("own"), "10.0.0.1 mine", "cat", "/etc/hosts")
	})
}

func TestResolvConf(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		conf := filepath.Join(n.Dir(), "resolv.conf")
		harness.WriteAll(t, n.Dir(),
			map[string]string{"resolv.conf": "nameserver 192.0.2.1\nsearch lan.test\noptions edns0\n"})
		n.Args = []string{"--resolv-conf", conf}
		n.WriteManifest("first.yaml", harness.IdlePod("first", ""))
		n.WriteManifest("more.yaml", harness.IdlePod("more", "dnsPolicy: Default\ndnsConfig: {nameservers: [192.0.2.2, "+
			"192.0.2.3, 192.0.2.4], searches: [own.test], options: [{name: ndots, value: \"3\"}]}"))
		n.WriteManifest("none.yaml", harness.IdlePod("none",
			"dnsPolicy: None\ndnsConfig: {nameservers: [192.0.2.9], searches: [own.test]}"))
		n.MustStart()
		// lines returns the lines of the pod's file, independent of the runtime's formatting.
		mustHaveLines := func(name string, want ...string) {
			t.Helper()
			text := n.Exec(n.AwaitRunning(name), "cat", "/etc/resolv.conf")
			got := strings.Split(text, "\n")
			for _, lines := range [][]string{got, want} {
				slices.Sort(lines)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s has\n%s\nwant\n%s", name, text, strings.Join(want, "\n"))
			}
		}
		mustHaveLines("first", "nameserver 192.0.2.1", "search lan.test", "options edns0")
		mustHaveLines("more", "nameserver 192.0.2.1", "nameserver 192.0.2.2", "nameserver 192.0.2.3",
			"search lan.test own.test", "options edns0 ndots:3")
		mustHaveLines("none", "nameserver 192.0.2.9", "search own.test")
		if found, err := n.Events("more"); err != nil ||
			!strings.Contains(found["DNSConfigForming"].Message, "192.0.2.4 omitted") {
			t.Errorf("event of omitted name servers: %v (%v)", found["DNSConfigForming"].Message, err)
		}
		for _, name := range []string{"first", "none"} {
			if found, err := n.Events(name); err != nil || found["DNSConfigForming"].Reason != "" ||
				found["MissingClusterDNS"].Reason != "" {
				t.Errorf("events of %s: %v (%v)", name, harness.Keys(found), err)
			}
		}
		// Pods that start after a change on the host get the change, and the stub of
		// systemd-resolved is replaced by its upstream servers.
		harness.WriteAll(t, "/run/systemd/resolve",
			map[string]string{"resolv.conf": "nameserver 192.0.2.53\nsearch behind.test\n"})
		harness.WriteAll(t, n.Dir(), map[string]string{"resolv.conf": "nameserver 127.0.0.53\noptions edns0 trust-ad\n"})
		n.WriteManifest("second.yaml", harness.IdlePod("second", ""))
		n.WriteManifest("host.yaml", harness.IdlePod("host", "hostNetwork: true"))
		mustHaveLines("second", "nameserver 192.0.2.53", "search behind.test")
		mustHaveLines("host", "nameserver 127.0.0.53", "options edns0 trust-ad")
		mustHaveLines("first", "nameserver 192.0.2.1", "search lan.test", "options edns0")

		n.Kill()
		n.Args = append(n.Args, "--cluster-dns", "10.96.0.10", "--cluster-domain", "cluster.test")
		harness.WriteAll(t, n.Dir(), map[string]string{"resolv.conf": "nameserver 192.0.2.1\nsearch lan.test\n"})
		n.WriteManifest("cluster.yaml", harness.IdlePod("cluster", ""))
		n.WriteManifest("hostcluster.yaml",
			harness.IdlePod("hostcluster", "hostNetwork: true\ndnsPolicy: ClusterFirstWithHostNet"))
		n.MustStart()
		inCluster := []string{"nameserver 10.96.0.10",
			"search default.svc.cluster.test svc.cluster.test cluster.test lan.test", "options ndots:5"}
		mustHaveLines("cluster", inCluster...)
		mustHaveLines("hostcluster", inCluster...)
	})
}

// A HostPort with a hostIP is open only at that address; a UDP port accepts UDP.
func TestHostPortAddressAndProtocol(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		tcp, udp := harness.HostPort(), harness.HostPort()
		n.WriteManifest("p.yaml", harness.ScriptPod("p", "one", 1,
			"mkdir /www; echo in the pod > /www/index.html; httpd -f -p 80 -h /www")+
			fmt.Sprintf(`      ports:
        - {containerPort: 80, hostPort: %d, hostIP: 127.0.0.2}
        - {containerPort: 53, hostPort: %d, protocol: UDP}
`, tcp, udp))
		n.MustStart()
		main := n.AwaitRunning("p")
		dial := func(address string) error {
			c, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", address, tcp), time.Minute)
			if err == nil {
				_ = c.Close()
			}
			return err
		}
		n.Await("the port answers at its address", func() error { return dial("127.0.0.2") })
		if err := dial("127.0.0.1"); err == nil {
			t.Error("the port answers at another address too")
		}
		// No program in the image speaks UDP, so the test does it in the pod's network
		// namespace.
		inside := listenIn(t, main.Pid, ":53")
		c, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", udp))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		n.Await("the UDP port receives a datagram and its reply arrives", func() error {
			if _, err := c.Write([]byte("a word")); err != nil {
				return err
			}
			got := make([]byte, 100)
			_ = inside.SetDeadline(time.Now().Add(10 * time.Second))
			size, from, err := inside.ReadFrom(got)
			if err != nil {
				return err
			}
			if _, err := inside.WriteTo(append([]byte("got "), got[:size]...), from); err != nil {
				return err
			}
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			if size, err = c.Read(got); err == nil && string(got[:size]) != "got a word" {
				err = fmt.Errorf("got %q", got[:size])
			}
			return err
		})
	})
}

// listenIn opens a UDP socket in the network namespace of a process.
func listenIn(t *testing.T, pid int, address string) (conn net.PacketConn) {
	t.Helper()
	inNetworkOf(t, pid, func() (err error) {
		conn, err = net.ListenPacket("udp", address)
		return err
	})
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// inNetworkOf opens something in the network namespace of a process.
func inNetworkOf(t *testing.T, pid int, open func() error) {
	t.Helper()
	opened := make(chan error)
	go func() {
		// The thread ends with the goroutine, and its network namespace with the thread.
		runtime.LockOSThread()
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			err = open()
		}
		opened <- err
	}()
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
}

// A dual-stack network gives a pod one address of each family.
func TestDualStack(t *testing.T) {
	harness.OnEachPrivateRuntime(t, func(t *testing.T, n *harness.Node) {
		conf := filepath.Join(n.Runtime.Dir(), "cni", "10-bed.conflist")
		text, err := os.ReadFile(conf)
		if err != nil {
			t.Fatal(err)
		}
		two := strings.NewReplacer(`"ranges": [`, `"ranges": [[{"subnet": "fd42:`+n.Name[1:]+`::/64"}], `, `"routes": [`,
			`"routes": [{"dst": "::/0"}, `).Replace(string(text))
		if err := os.WriteFile(conf, []byte(two), 0o644); err != nil {
			t.Fatal(err)
		}
		n.WriteManifest("p.yaml", harness.IdlePod("p", ""))
		n.MustStart()
		main := n.AwaitRunning("p")
		p := n.AwaitReady("p")
		if ips := p.Status.PodIPs; len(ips) != 2 || !strings.HasPrefix(ips[0].IP, "10.211.") ||
			!strings.HasPrefix(ips[1].IP, "fd42:") || p.Status.PodIP != ips[0].IP {
			t.Fatalf("pod IPs are %v, the first %s", ips, p.Status.PodIP)
		}
		inside, hosts := n.Exec(main, "ip", "addr"), n.Exec(main, "cat", "/etc/hosts")
		for _, ip := range p.Status.PodIPs {
			if !strings.Contains(inside, ip.IP+"/") || !strings.Contains(hosts, ip.IP+"\t"+p.Name) {
				t.Errorf("%s is not in the pod's interfaces and hosts file:\n%s\n%s", ip.IP, inside, hosts)
			}
		}
	})
}

// The node's addresses are those of its default route, as soon as it exists and after each
// change.
func TestHostAddressesFollowTheNetwork(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		run := func(command ...string) {
			t.Helper()
			if out, err := exec.Command("ip", command...).CombinedOutput(); err != nil {
				t.Fatalf("ip %s: %v: %s", strings.Join(command, " "), err, out)
			}
		}
		// The daemon gets its own network namespace, so that other tests keep theirs.
		run("netns", "add", n.Name)
		t.Cleanup(func() { run("netns", "del", n.Name) })
		program := filepath.Join(n.Dir(), "podstead-in-netns")
		script := fmt.Sprintf("#!/bin/sh\nexec nsenter --net=/run/netns/%s %s \"$@\"\n", n.Name, n.Binary)
		if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		n.Binary = program
		n.WriteManifest("p.yaml", harness.IdlePod("p", "hostNetwork: true"))
		n.WriteManifest("address.yaml", harness.IdlePod("address", "hostNetwork: true")+`      env:
        - {name: HOST, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
        - {name: POD, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
`)
		n.MustStart()
		first := n.AwaitRunning("p")
		n.AwaitStatus("address", "waits for an address", func(p v1.Pod) error {
			if p.Status.Reason != "WaitingForHostIP" || !strings.Contains(p.Status.Message, "--node-ip") {
				return fmt.Errorf("%s %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
			}
			return nil
		})
		if p := n.AwaitReady("p"); p.Status.HostIP != "" || p.Status.PodIP != "" {
			t.Errorf("without a network the host has %s, the pod %s", p.Status.HostIP, p.Status.PodIP)
		}
		has := func(want ...string) {
			t.Helper()
			n.AwaitStatus("p", fmt.Sprint("has ", want), func(p v1.Pod) error {
				var hosts, pods []string
				for _, ip := range p.Status.HostIPs {
					hosts = append(hosts, ip.IP)
				}
				for _, ip := range p.Status.PodIPs {
					pods = append(pods, ip.IP)
				}
				if !slices.Equal(hosts, want) || !slices.Equal(pods, want) || p.Status.HostIP != want[0] ||
					p.Status.PodIP != want[0] {
					return fmt.Errorf("host IPs %v, pod IPs %v", hosts, pods)
				}
				return nil
			})
		}
		in := func(command ...string) { t.Helper(); run(append([]string{"-n", n.Name}, command...)...) }
		in("link", "add", "up0", "up", "type", "veth", "peer", "name", "far0")
		in("link", "set", "far0", "up")
		in("addr", "add", "10.77.0.2/24", "dev", "up0")
		time.Sleep(time.Second)
		if p, err := n.Pod("p"); err != nil || p.Status.HostIP != "" {
			t.Errorf("without a default route the host has %q (%v)", p.Status.HostIP, err)
		}
		in("route", "add", "default", "via", "10.77.0.1")
		has("10.77.0.2")
		n.MustPrintIn(n.AwaitRunning("address"), "10.77.0.2 10.77.0.2", "sh", "-c", "echo $HOST $POD")
		in("addr", "add", "2001:db8::2/64", "dev", "up0", "nodad")
		in("-6", "route", "add", "default", "via", "2001:db8::1")
		has("10.77.0.2", "2001:db8::2")
		in("link", "add", "up1", "up", "type", "veth", "peer", "name", "far1")
		in("link", "set", "far1", "up")
		in("addr", "add", "10.78.0.2/24", "dev", "up1")
		in("route", "add", "default", "via", "10.78.0.1", "metric", "10")
		in("route", "del", "default", "via", "10.77.0.1")
		has("10.78.0.2", "2001:db8::2")
		in("link", "set", "up1", "down") // its route is removed without a notification
		in("-6", "route", "del", "default", "via", "2001:db8::1")
		in("route", "add", "default", "via", "10.77.0.1")
		has("10.77.0.2")
		n.Kill()
		n.Args = []string{"--node-ip", "2001:db8::9,10.0.0.9"}
		n.MustStart()
		has("2001:db8::9", "10.0.0.9")
		n.MustStillRun("p", first)
	})
}
