package network

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// A private network of IPv4, with a pod in it, gets an IPv6 range: the next pod has an address of
// each, on its interface as in its status, and the other pods and the host reach it through both. The
// earlier pod keeps running with its address.
func TestPodCIDR(t *testing.T) {
	t.Parallel()
	harness.PrivateNetwork.Lock()
	defer harness.PrivateNetwork.Unlock()
	if off, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6"); err != nil ||
		strings.TrimSpace(string(off)) != "0" {
		t.Fatalf("this kernel has no IPv6: %s (%v)", off, err)
	}
	n := harness.PrivateNode(t, testbed.Containerd24)
	n.WriteManifest("before.yaml", harness.SleepPod("before", "one"))
	n.MustStart()
	before := n.AwaitRunning("before")
	file := filepath.Join(n.Root, "containerd/cni/net.d/10-podstead.conflist")
	ipv4 := rangesOfNetwork(t, file)[0]
	n.Kill()

	const ipv6 = "fd5e:b0d5:7ead::/64"
	n.Args = append(n.Args, "--pod-cidr", ipv4.String()+","+ipv6)
	n.MustStart()
	if got := fmt.Sprint(rangesOfNetwork(t, file)); got != fmt.Sprintf("[%s %s]", ipv4, ipv6) {
		t.Fatalf("the network has the ranges %s", got)
	}
	first, second := awaitDualStack(n, "p", ipv4, netip.MustParsePrefix(ipv6)),
		awaitDualStack(n, "q", ipv4, netip.MustParsePrefix(ipv6))
	p := n.AwaitRunning("p")
	n.Exec(n.AwaitRunning("q"), "httpd", "-p", "8080", "-h", "/etc")
	for _, address := range second {
		url := "http://" + netip.AddrPortFrom(address, 8080).String() + "/hostname"
		n.AwaitExec(p, n.PodName("q"), "wget", "-q", "-O", "-", url)
		awaitPageOf(n, url, n.PodName("q"))
	}
	for i, address := range first {
		// The host has the first address of each range, and the pod a route through it.
		gateway := []netip.Prefix{ipv4, netip.MustParsePrefix(ipv6)}[i].Masked().Addr().Next()
		routes := n.Exec(p, "ip", map[bool]string{true: "-4", false: "-6"}[address.Is4()], "route")
		if !strings.Contains(routes, "default via "+gateway.String()+" ") {
			t.Errorf("the routes are %q, want a default one through %s", routes, gateway)
		}
	}
	n.MustStillRun("before", before)

	// A range that the bridge cannot have while pods run changes nothing.
	n.Kill()
	n.Args = append(n.Args, "--pod-cidr", "10.231.0.0/16")
	n.MustStart()
	if log, err := os.ReadFile(n.Log()); err != nil ||
		!strings.Contains(string(log), "Failed to set the pod CIDR, the network of pods stays as it is") {
		t.Errorf("no warning of a range that is not used: %v", err)
	}
	if got := fmt.Sprint(rangesOfNetwork(t, file)); got != fmt.Sprintf("[%s %s]", ipv4, ipv6) {
		t.Errorf("the network has the ranges %s", got)
	}
	n.MustStillRun("p", p)
}

// awaitDualStack starts a pod and returns its addresses, one of each range, as its status and its
// interface have them.
func awaitDualStack(n *harness.Node, name string, ranges ...netip.Prefix) (addresses []netip.Addr) {
	n.T.Helper()
	n.WriteManifest(name+".yaml", harness.SleepPod(name, "one"))
	i := n.AwaitRunning(name)
	n.Await("both addresses in the status of "+name, func() error {
		addresses = nil
		status := n.AwaitReady(name).Status
		for _, ip := range status.PodIPs {
			address, err := netip.ParseAddr(ip.IP)
			if err != nil {
				return err
			}
			addresses = append(addresses, address)
		}
		if len(addresses) != len(ranges) {
			return fmt.Errorf("the status has %v", status.PodIPs)
		}
		for k := range ranges {
			if !ranges[k].Contains(addresses[k]) {
				return fmt.Errorf("%v are not of %v", addresses, ranges)
			}
		}
		return nil
	})
	eth0 := n.Exec(i, "ip", "addr", "show", "eth0")
	for _, address := range addresses {
		if !strings.Contains(eth0, " "+address.String()+"/") {
			n.T.Errorf("%s is not on the interface:\n%s", address, eth0)
		}
	}
	return addresses
}

// awaitPageOf waits until the host gets a page of a pod.
func awaitPageOf(n *harness.Node, url, want string) {
	n.T.Helper()
	n.Await("the host gets "+url, func() error {
		client := http.Client{Timeout: 10 * time.Second}
		response, err := client.Get(url)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		if err == nil && strings.TrimSpace(string(page)) != want {
			err = fmt.Errorf("got %q", page)
		}
		return err
	})
}

// rangesOfNetwork returns the ranges in the configuration of the private network.
func rangesOfNetwork(t *testing.T, file string) (ranges []netip.Prefix) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var network struct {
		Plugins []struct {
			IPAM struct {
				Ranges [][]struct{ Subnet netip.Prefix }
			}
		}
	}
	if err := json.Unmarshal(text, &network); err != nil {
		t.Fatal(err)
	}
	for _, set := range network.Plugins[0].IPAM.Ranges {
		ranges = append(ranges, set[0].Subnet)
	}
	return ranges
}
