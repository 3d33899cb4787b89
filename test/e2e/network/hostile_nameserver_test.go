package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/cri/private"
	"github.com/podstead/podstead/test/e2e/harness"
)

// maxNameserverMemory is what the name server may need at its peak, in bytes, whatever its clients
// send.
const maxNameserverMemory = 100 << 20

// attackNameserver sends what the name server has to bear from a pod and from an address that is
// no client of it. It must answer others meanwhile, and stay within its memory.
func attackNameserver(n *harness.Node, web harness.Instance, db string) {
	t := n.T
	t.Helper()
	gateways, err := private.Gateways(filepath.Join(n.Runtime.Dir(), "cni"))
	if err != nil {
		t.Fatal(err)
	}
	server := &net.UDPAddr{IP: gateways[0].Addr().AsSlice(), Port: 53}
	before, err := n.NameserverStatus()
	if err != nil {
		t.Fatal(err)
	}
	attacker := listenIn(t, n.AwaitRunning("early").Pid, ":0")
	send := func(packet []byte) {
		t.Helper()
		if _, err := attacker.WriteTo(packet, server); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5000 {
		garbage := make([]byte, rand.IntN(1400))
		for k := range garbage {
			garbage[k] = byte(rand.Uint32())
		}
		send(garbage)
		for _, name := range []string{fmt.Sprintf("%d.slow.example.", i), "db.default.svc.cluster.local."} {
			packet, err := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
			if err != nil {
				t.Fatal(err)
			}
			send(packet)
		}
	}
	if got := n.Lookup(web, "db"); !slices.Equal(got, []string{db}) {
		t.Errorf("during a flood db is %v, want %s", got, db)
	}

	// Connections of one client, the host itself here, are closed beyond its share.
	open := 0
	direct := &net.UDPAddr{IP: server.IP, Port: 10053}
	for range 200 {
		conn, err := net.DialTimeout("tcp", direct.String(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !isReset(err) {
			open++
		}
	}
	if open < 1 || open > 100 {
		t.Errorf("%d of 200 connections of one client stay open", open)
	}

	// An address outside the pod network gets no answer.
	outsider, err := net.DialUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, direct)
	if err != nil {
		t.Fatal(err)
	}
	defer outsider.Close()
	packet, err := new(dns.Msg).SetQuestion("db.default.svc.cluster.local.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	n.Await("a query from outside is counted", func() error {
		if _, err := outsider.Write(packet); err != nil {
			return err
		}
		after, err := n.NameserverStatus()
		if err == nil && after.Counters.Foreign == before.Counters.Foreign {
			err = errors.New("it is not")
		}
		return err
	})
	_ = outsider.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if size, err := outsider.Read(make([]byte, 512)); err == nil {
		t.Errorf("an address outside the pod network got %d bytes", size)
	}

	after, err := n.NameserverStatus()
	if err != nil || after.Pid != before.Pid {
		t.Errorf("process %d became %d (%v)", before.Pid, after.Pid, err)
	}
	peak := harness.PeakMemory(t, after.Pid)
	t.Logf("peak: %3d MiB, queries of a pod, on %s; %+v", peak>>20, n.Runtime.Kind, after.Counters)
	if peak > maxNameserverMemory {
		t.Errorf("the name server needed %d MiB", peak>>20)
	}
	n.AwaitLookup(web, "db.default.svc.cluster.local.", db)
}

func isReset(err error) bool {
	var network net.Error
	return err != nil && !(errors.As(err, &network) && network.Timeout())
}

// fillForwards lets four pods ask for many names whose servers do not answer, and one of them also from addresses that
// are not its own. Another pod gets answers about names outside of the node meanwhile.
func fillForwards(n *harness.Node, web harness.Instance, want string) {
	t := n.T
	t.Helper()
	gateways, err := private.Gateways(filepath.Join(n.Runtime.Dir(), "cni"))
	if err != nil {
		t.Fatal(err)
	}
	network := gateways[0].Masked()
	server := &net.UDPAddr{IP: gateways[0].Addr().AsSlice(), Port: 53}
	query := func(name string) []byte {
		packet, err := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
		if err != nil {
			t.Error(err)
		}
		return packet
	}
	var attack sync.WaitGroup
	ended := make(chan struct{})
	flood := func(number int, send func(packet []byte) error) {
		attack.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-ended:
					return
				default:
				}
				if err := send(query(fmt.Sprintf("%d-%d.hang.example.", number, i))); err != nil {
					t.Errorf("pod %d: %v", number, err)
					return
				}
				if i%100 == 99 {
					time.Sleep(500 * time.Millisecond) // more than all that may wait, and not what fills the processor
				}
			}
		})
	}
	var pid int
	for i, name := range []string{"early", "later", "blocked", "unready"} {
		pid = n.AwaitRunning(name).Pid
		conn := listenIn(t, pid, ":0")
		flood(i, func(packet []byte) error {
			_, err := conn.WriteTo(packet, server)
			return err
		})
	}
	raw := -1 // the kernel completes the header of IPv4
	inNetworkOf(t, pid, func() (err error) {
		raw, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		return err
	})
	t.Cleanup(func() { _ = unix.Close(raw) })
	from, to := network.Addr().As4(), gateways[0].Addr().As4()
	flood(4, func(packet []byte) error {
		from[3] = byte(200 + rand.IntN(50)) // no pod has them
		header := []byte{4<<4 | 5, 0, 0, 0, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}
		header = append(append(header, from[:]...), to[:]...)
		header = binary.BigEndian.AppendUint16(header, uint16(1024+rand.IntN(60000)))
		header = binary.BigEndian.AppendUint16(header, 53)
		header = binary.BigEndian.AppendUint16(header, uint16(8+len(packet)))
		header = append(header, 0, 0) // no checksum
		return unix.Sendto(raw, append(header, packet...), 0, &unix.SockaddrInet4{Addr: to})
	})
	n.Await("queries beyond the limits are referred to TCP", func() error {
		status, err := n.NameserverStatus()
		if err == nil && status.Counters.Rejected == 0 {
			err = fmt.Errorf("none is: %+v", status.Counters)
		}
		return err
	})
	for i := range 10 {
		n.AwaitLookup(web, fmt.Sprintf("%d.far.example.", i), want)
	}
	close(ended)
	attack.Wait()
}
