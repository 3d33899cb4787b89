package nameserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/podstead/podstead/internal/atomicfile"
	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/node/nameserver/zone"
)

// SnapshotVersion is the version of the form of the Snapshot. A server that reads another one
// keeps what it has; the daemon replaces the server before it writes a new form.
const SnapshotVersion = 1

// maxSnapshot limits the size of a snapshot in bytes, many times that of the most pods.
const maxSnapshot = 16 << 20

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

// Load reads the snapshot. A missing one is an error.
func (d Directory) Load() (*Snapshot, error) {
	var s Snapshot
	if err := boundedfile.ReadJSON(d.Snapshot(), maxSnapshot, SnapshotVersion, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

// Save replaces the snapshot, unless it is equal already.
func (d Directory) Save(s *Snapshot) error {
	s.Version = SnapshotVersion
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if len(data) > maxSnapshot {
		return fmt.Errorf("the names of all pods need %d bytes, and at most %d are allowed", len(data), maxSnapshot)
	}
	if old, err := boundedfile.Read(d.Snapshot(), maxSnapshot); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := d.Create(); err != nil {
		return err
	}
	return atomicfile.ReplaceMode(d.Snapshot(), data, 0o600)
}
