package hostsockets

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Sockets of this process are found in the tables of the kernel, with its name.
func TestFind(t *testing.T) {
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	client, err := net.Dial("tcp4", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	number := func(a net.Addr) int32 { return int32(netip.MustParseAddrPort(a.String()).Port()) }
	listens, receives, connected := number(tcp.Addr()), number(udp.LocalAddr()), number(client.LocalAddr())
	ports := []podinfo.HostPort{
		{IP: "0.0.0.0", Protocol: "TCP", Number: listens}, {IP: "127.0.0.1", Protocol: "TCP", Number: listens},
		{IP: "10.9.9.9", Protocol: "TCP", Number: listens},
		{IP: "0.0.0.0", Protocol: "UDP", Number: receives},
		{IP: "0.0.0.0", Protocol: "TCP", Number: connected}, // of a client
	}
	var got []podinfo.HostPort
	for _, l := range Find("/proc", ports) {
		got = append(got, l.Port)
		if l.PID != os.Getpid() || l.Process != "hostsockets.tes" {
			t.Errorf("listener %+v", l)
		}
		if text := l.String(); !strings.Contains(text,
			fmt.Sprintf("hostPort %d (%s on %s) is taken from process hostsockets.tes (PID %d)", l.Port.Number, l.Port.Protocol,
				l.Port.IP, os.Getpid())) {
			t.Error(text)
		}
	}
	if want := []podinfo.HostPort{ports[0], ports[1], ports[3]}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	_ = tcp.Close()
	if got := Find("/proc", ports[:2]); len(got) != 0 {
		t.Errorf("after it was closed: %v", got)
	}
}

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"0100007F:1F90": "127.0.0.1:8080", "00000000:0016": "0.0.0.0:22",
		"00000000000000000000000001000000:0035": "[::1]:53", "0000000000000000FFFF00000100007F:0050": "127.0.0.1:80",
	} {
		if got, ok := parseAddress(text); !ok || got.String() != want {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "0100007F", "0100007F:x", "01007F:0016", "zz00007F:0016"} {
		if got, ok := parseAddress(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// Without the tables, as in a container without /proc, nothing is found.
func TestFindWithoutTables(t *testing.T) {
	if got := Find(t.TempDir(), []podinfo.HostPort{{IP: "0.0.0.0", Protocol: "TCP", Number: 22},
		{IP: "x", Protocol: "TCP", Number: 22}}); got != nil {
		t.Errorf("found %v", got)
	}
}
