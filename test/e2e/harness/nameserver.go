package harness

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/podstead/podstead/node/nameserver"
)

var answered = regexp.MustCompile(`(?m)^Address(?: \d+)?: ([0-9a-f.:]+)$`)

// Lookup returns the addresses that nslookup prints in a container, without those of the server.
func (n *Node) Lookup(i Instance, name string) []string {
	n.T.Helper()
	// A search domain without the name is an error too.
	out := n.Exec(i, "sh", "-c", "nslookup -type=a "+name+" 2>&1 || true")
	var found []string
	for _, m := range answered.FindAllStringSubmatch(out, -1) {
		if !strings.HasSuffix(m[1], ":53") {
			found = append(found, m[1])
		}
	}
	slices.Sort(found)
	return found
}

// AwaitLookup waits until a name has these addresses.
func (n *Node) AwaitLookup(i Instance, name string, want ...string) {
	n.T.Helper()
	slices.Sort(want)
	n.Await(fmt.Sprintf("%s is %v", name, want), func() error {
		if got := n.Lookup(i, name); !slices.Equal(got, want) {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	}, time.Minute)
}

// NameserverStatus returns what the name server of the node's pods reports.
func (n *Node) NameserverStatus() (nameserver.Status, error) {
	var status nameserver.Status
	conn, err := net.Dial("unix", n.NameserverDir().Socket())
	if err != nil {
		return status, err
	}
	defer conn.Close()
	return status, json.NewDecoder(conn).Decode(&status)
}

// NameserverDir returns the directory of the name server of pods.
func (n *Node) NameserverDir() nameserver.Directory {
	return nameserver.Directory(filepath.Join(filepath.Dir(n.Socket()), "nameserver"))
}

// EndNameserver ends the daemon, and the name server that outlives it.
func (n *Node) EndNameserver() {
	n.End()
	if status, err := n.NameserverStatus(); err == nil {
		KillProcess(n.T, status.Pid)
	}
}
