package network

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri/private"
	"github.com/podstead/podstead/node/firewall"
	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// upstreamServer is a name server of the node that knows one name and all below it, and leaves queries for
// hang.example without a response.
type upstreamServer struct {
	address string
	queries atomic.Int64
	server  *dns.Server
}

// loopbackNets numbers the loopback addresses of name servers.
var loopbackNets atomic.Int64

// startUpstream starts a name server at port 53 of a loopback address.
func startUpstream(t *testing.T, text string) *upstreamServer {
	t.Helper()
	u := &upstreamServer{address: fmt.Sprintf("127.53.%d.1", loopbackNets.Add(1))}
	conn, err := net.ListenPacket("udp", u.address+":53")
	if err != nil {
		t.Fatal(err)
	}
	u.server = &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, query *dns.Msg) {
		u.queries.Add(1)
		reply := new(dns.Msg).SetReply(query)
		q := query.Question[0]
		switch {
		case strings.HasSuffix(q.Name, "hang.example."):
			return
		case !strings.HasSuffix(q.Name, "far.example."):
			reply.Rcode = dns.RcodeNameError
		case q.Qtype == dns.TypeA:
			reply.Answer = append(reply.Answer,
				&dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.ParseIP(text)})
		}
		_ = w.WriteMsg(reply)
	})}
	go func() { _ = u.server.ActivateAndServe() }()
	t.Cleanup(u.stop)
	return u
}

// stop ends the name server: its port answers with an ICMP error.
func (u *upstreamServer) stop() { _ = u.server.Shutdown() }

// dnsClient returns the manifest of a pod that answers with its name at port 5432, and has the
// tools of a client.
func dnsClient(name, spec string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  terminationGracePeriodSeconds: 0
%[2]s
  containers:
    - name: main
      image: %[3]s
      command: [sh, -c, "mkdir -p /www; echo I am %[1]s > /www/index.html; exec httpd -f -p 5432 -h /www"]
      ports: [{name: http, containerPort: 5432}]
`, name, harness.Indent(spec), testbed.BusyboxImage)
}

func nameserverPid(n *harness.Node) int {
	n.T.Helper()
	status, err := n.NameserverStatus()
	if err != nil {
		n.T.Fatal(err)
	}
	return status.Pid
}

// usePodDNS lets the node have a name server for its pods, and ends that with the test.
func usePodDNS(n *harness.Node, conf string) {
	n.Args = append(n.Args, "--pod-dns", "always", "--cni-conf-dir", filepath.Join(n.Runtime.Dir(), "cni"),
		"--resolv-conf", conf)
	n.T.Cleanup(n.EndNameserver)
}

// Pods find each other by name, and the name server answers whatever happens to the daemon.
func TestPodNames(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		first, second := startUpstream(t, "192.0.2.1"), startUpstream(t, "192.0.2.2")
		conf := filepath.Join(n.Dir(), "resolv.conf")
		harness.WriteAll(t, n.Dir(), map[string]string{"resolv.conf": "nameserver " + first.address + "\nnameserver " +
			second.address + "\nsearch lan.test\n"})
		usePodDNS(n, conf)
		podsStartWithoutNameserver(n, first.address)
		n.WriteManifest("web.yaml", dnsClient("web", ""))
		n.WriteManifest("host.yaml", harness.IdlePod("host", "hostNetwork: true\ndnsPolicy: ClusterFirstWithHostNet"))
		n.WriteManifest("db.yaml", dnsClient("db", ""))
		n.WriteManifest("other.yaml", strings.Replace(dnsClient("queue", ""), "{name: queue,",
			"{name: queue, namespace: other,", 1))
		// Its short name is a name of the upstream servers.
		n.WriteManifest("far.yaml", strings.Replace(dnsClient("far", ""), "{name: far,",
			"{name: far, namespace: example,", 1))
		n.WriteManifest("unready.yaml", strings.Replace(dnsClient("unready", ""), "      ports:",
			"      readinessProbe: {exec: {command: [test, -e, /ready]}, periodSeconds: 1, timeoutSeconds: 300}\n      ports:",
			1))
		web, db := n.AwaitRunning("web"), n.AwaitReady("db").Status.PodIP
		if text := n.Exec(web, "cat", "/etc/resolv.conf"); !strings.Contains(text,
			"search default.svc.cluster.local svc.cluster.local cluster.local lan.test") || !strings.Contains(text, "ndots:5") ||
			strings.Contains(text, first.address) {
			t.Fatalf("/etc/resolv.conf of web is\n%s", text)
		}
		n.AwaitExec(web, "I am db", "wget", "-q", "-O", "-", "http://db:5432/")
		queue := n.AwaitReady("queue").Status.PodIP
		far := n.AwaitReady("far").Status.PodIP
		for name, want := range map[string]string{
			"far.example.svc.cluster.local.": far, "db.default.svc.cluster.local.": db,
			"queue.other.svc.cluster.local.": queue, "far.example.": "192.0.2.1",
		} {
			n.AwaitLookup(web, name, want)
		}
		// Through the search list, which nslookup does not apply to a name with a dot.
		n.AwaitExec(web, "I am db", "wget", "-q", "-O", "-", "http://db.default:5432/")
		n.AwaitExec(web, "I am queue", "wget", "-q", "-O", "-", "http://queue.other:5432/")
		n.AwaitLookup(n.AwaitRunning("host"), "db.default.svc.cluster.local.", db)
		n.AwaitLookup(web, "queue.default.svc.cluster.local.")
		n.AwaitExec(web, "db.default.svc.cluster.local", "sh", "-c", "nslookup "+db+" | sed -n 's/.*name = //p'")

		// A pod that is not Ready has a name without an address.
		unready := n.AwaitRunning("unready")
		n.AwaitLookup(web, "unready.default.svc.cluster.local.")
		n.Exec(unready, "touch", "/ready")
		n.AwaitLookup(web, "unready.default.svc.cluster.local.", n.AwaitReady("unready").Status.PodIP)

		// Services, as headless ones of Kubernetes.
		n.WriteManifest("service.yaml", `apiVersion: v1
kind: Service
metadata: {name: backend}
spec:
  selector: {app: db}
  ports: [{name: sql, port: 5432}]
---
apiVersion: v1
kind: Service
metadata: {name: elsewhere}
spec: {type: ExternalName, externalName: far.example}
`)
		n.AwaitLookup(web, "backend.default.svc.cluster.local.", db)
		n.AwaitLookup(web, "elsewhere.default.svc.cluster.local.", "192.0.2.1")
		n.AwaitExec(web, "I am db", "wget", "-q", "-O", "-", "http://backend:5432/")
		dashed := strings.ReplaceAll(db, ".", "-") + ".backend.default.svc.cluster.local"
		n.AwaitLookup(web, dashed+".", db)
		n.AwaitExec(web, "5432 "+dashed, "sh", "-c",
			"nslookup -type=srv _sql._tcp.backend.default.svc.cluster.local. | sed -n 's/.*service = [0-9]* [0-9]* //p'")
		n.AwaitExec(web, dashed, "sh", "-c", "nslookup "+db+" | sed -n 's/.*name = //p'")

		// The second server of the node takes the place of one that does not answer.
		first.stop()
		n.AwaitLookup(web, "far.example.", "192.0.2.2")

		nameserverOutlivesTheDaemon(n, web, db)
		fillForwards(n, web, "192.0.2.2")
		attackNameserver(n, web, db)
	})
}

// podsStartWithoutNameserver starts the daemon while another program has the name server's port.
// Pods start with the node's name servers; those that start once the port is free get the other.
func podsStartWithoutNameserver(n *harness.Node, upstream string) {
	t := n.T
	t.Helper()
	gateways, err := private.Gateways(filepath.Join(n.Runtime.Dir(), "cni"))
	if err != nil {
		t.Fatal(err)
	}
	freebind := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		return errors.Join(raw.Control(
			func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_FREEBIND, 1) }), err)
	}}
	other, err := freebind.ListenPacket(t.Context(), "udp", gateways[0].Addr().String()+":10053")
	if err != nil {
		t.Fatal(err)
	}
	n.WriteManifest("early.yaml", harness.IdlePod("early", ""))
	n.MustStart()
	early := n.AwaitRunning("early")
	if text := n.Exec(early, "cat", "/etc/resolv.conf"); !strings.Contains(text, "nameserver "+upstream) ||
		strings.Contains(text, "svc") {
		t.Errorf("/etc/resolv.conf without a name server is\n%s", text)
	}
	if found, err := n.Events("early"); err != nil ||
		!strings.Contains(found["DNSConfigForming"].Message, "address already in use") {
		t.Errorf("event of the pod: %q (%v)", found["DNSConfigForming"].Message, err)
	}
	_ = other.Close()
	n.Await("the name server listens", func() error {
		if status, err := n.NameserverStatus(); err != nil || len(status.Failed) > 0 {
			return errors.Join(err, fmt.Errorf("it is %+v", status))
		}
		return nil
	})
	n.MustStillRun("early", early)

	// The table raw comes before the rules with which podstead opens the port.
	drop := []string{"PREROUTING", "-s", gateways[0].Masked().String(), "-p", "udp", "--dport", "53", "-j", "DROP"}
	mustRun(t, append([]string{"iptables", "-w", "-t", "raw", "-I"}, drop...)...)
	open := sync.OnceFunc(func() { mustRun(t, append([]string{"iptables", "-w", "-t", "raw", "-D"}, drop...)...) })
	t.Cleanup(open)
	n.WriteManifest("blocked.yaml", harness.IdlePod("blocked", ""))
	n.Await("the log says that pods do not reach the name server", func() error {
		text, err := os.ReadFile(n.Log())
		if err == nil && !strings.Contains(string(text), "Pods do not reach their name server") {
			err = errors.New("it does not")
		}
		return err
	})
	n.WriteManifest("later.yaml", harness.IdlePod("later", ""))
	if text := n.Exec(n.AwaitRunning("later"), "cat", "/etc/resolv.conf"); !strings.Contains(text,
		"nameserver "+upstream) {
		t.Errorf("/etc/resolv.conf while the firewall is closed is\n%s", text)
	}
	open()
	n.Restart()
}

// nameservers returns the processes of the node's name server.
func nameservers(n *harness.Node) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, _ := os.ReadFile(file) // the process may have ended
		if strings.Contains(string(line), "nameserver\x00--directory\x00"+string(n.NameserverDir())) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

// processorTime returns the processor time of a process in ticks of the clock, 100 a second.
func processorTime(t *testing.T, pid int) (ticks int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	for _, field := range strings.Fields(rest)[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return ticks
}

// nameserverOutlivesTheDaemon stops, kills and upgrades the daemon, and kills the name server.
func nameserverOutlivesTheDaemon(n *harness.Node, web harness.Instance, db string) {
	t := n.T
	t.Helper()
	pid := nameserverPid(n)
	if rules, err := exec.Command("iptables", "-w", "-S").CombinedOutput(); err != nil ||
		!strings.Contains(string(rules), "-A INPUT -j "+firewall.DNSChain+"\n") {
		t.Errorf("the rules for the name server (%v):\n%s", err, rules)
	}
	mustAnswer := func(what string) {
		t.Helper()
		if got := n.Lookup(web, "db"); !slices.Equal(got, []string{db}) {
			t.Errorf("%s: db is %v, want %s", what, got, db)
		}
	}
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	mustAnswer("the daemon is stopped")
	n.MustStart()
	mustAnswer("the daemon is started again")
	n.Kill()
	mustAnswer("the daemon is killed")
	n.MustStart()
	if now := nameserverPid(n); now != pid {
		t.Errorf("the name server was process %d and is %d after the daemon was killed", pid, now)
	}
	n.Kill()
	copyOf := filepath.Join(n.Dir(), "podstead-copy")
	harness.CopyFile(t, n.Binary, copyOf)
	n.Binary = copyOf
	n.MustStart()
	mustAnswer("the daemon is upgraded")
	if program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || program != copyOf {
		t.Errorf("the name server runs %s (%v) after the upgrade, want %s in the same process", program, err, copyOf)
	}
	harness.KillProcess(t, pid)
	n.Await("the name server is started again", func() error {
		if status, err := n.NameserverStatus(); err != nil || len(status.Listening) == 0 {
			return errors.Join(err, fmt.Errorf("it is %+v", status))
		}
		return nil
	})
	mustAnswer("the name server is started again")
	if all := nameservers(n); len(all) != 1 {
		t.Errorf("the processes of the name server are %v, want one", all)
	}
	// Without queries it does nothing: 2 ticks are 1 % of a processor.
	pid = nameserverPid(n)
	before := processorTime(t, pid)
	time.Sleep(2 * time.Second)
	if used := processorTime(t, pid) - before; used > 2 {
		t.Errorf("the idle name server used %d ticks of processor time in 2 s", used)
	}
	n.MustStillRun("web", web)
	if p, err := n.Pod("web"); err != nil || p.Status.Phase != v1.PodRunning {
		t.Errorf("web is %s (%v)", p.Status.Phase, err)
	}
}
