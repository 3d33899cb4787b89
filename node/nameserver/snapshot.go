package nameserver

import (
	"net/netip"
	"os"
	"path/filepath"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/node/nameserver/zone"
)

// SnapshotVersion is the version of the form of the Snapshot. A server that reads another one
// keeps what it has; the daemon replaces the server before it writes a new form.
const SnapshotVersion = 1

// SnapshotFormat is the file of the Snapshot. The daemon writes it; the server only reads it.
var SnapshotFormat = statefile.Format[Snapshot]{
	Name: "/run/podstead/nameserver/snapshot.json", Version: SnapshotVersion,
	Limit:   16 << 20, // many times that of the most pods
	Damaged: statefile.MoveAside, Newer: statefile.MoveAside, DirMode: 0o700, Durability: statefile.Atomic,
}

// Snapshot is what the daemon gives to the server.
type Snapshot struct {
	Version int `json:"version"`
	// Domain is the cluster domain of the names, without a trailing dot.
	Domain string `json:"domain"`
	// Listen are the addresses on which the server answers, at port Port.
	Listen []netip.Addr `json:"listen"`
	Port   uint16       `json:"port"`
	// Clients are the networks that are answered. An address of Listen is also one, and so is
	// every loopback address at a loopback listener.
	Clients []netip.Prefix `json:"clients"`
	// ResolvConf is the file with the name servers of the node; empty for none.
	ResolvConf string    `json:"resolvConf,omitempty"`
	Zone       zone.Zone `json:"zone"`
}

// Directory has the files of one server. It is on a tmpfs, and only root has access.
type Directory string

// Snapshot returns the path of the snapshot.
func (d Directory) Snapshot() string { return filepath.Join(string(d), "snapshot.json") }

// Socket returns the path of the control socket.
func (d Directory) Socket() string { return filepath.Join(string(d), "control.sock") }

// Log returns the path of the server's log.
func (d Directory) Log() string { return filepath.Join(string(d), "nameserver.log") }

// Create creates the directory.
func (d Directory) Create() error { return os.MkdirAll(string(d), 0o700) }
