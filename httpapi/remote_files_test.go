package httpapi

import (
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestRevokedFile(t *testing.T) {
	remote := func(dir string, disk statefile.Disk) *remote {
		return newRemote(Remote{Dir: dir, Disk: disk}, slog.New(slog.DiscardHandler))
	}
	statefiletest.Store{
		Files: []string{"revoked-kubeconfigs"}, Before: "revoked-kubeconfigs.before", After: "revoked-kubeconfigs.after",
		Old: "0a ff01", New: "0a 17 ff01", None: "", Rules: statefiletest.RulesOf(&revokedFormat), Tolerant: true,
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			m := remote(dir, disk)
			if err := m.loadRevoked(); err != nil {
				return "", err
			}
			return strings.Join(slices.Sorted(maps.Keys(m.revoked)), " "), nil
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			return remote(dir, disk).revokeKubeconfig("17")
		},
	}.Run(t)
}

func TestLoopbackFile(t *testing.T) {
	statefiletest.Store{
		Files: []string{"kubeconfig-address"}, Before: "kubeconfig-address.before", After: "kubeconfig-address.after",
		Old: "127.0.0.1:10250", New: "[::1]:10251", None: "", Rules: statefiletest.RulesOf(&loopbackFormat),
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			return newRemote(Remote{Dir: dir, Disk: disk}, slog.New(slog.DiscardHandler)).savedLoopback(), nil
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			m := newRemote(Remote{Dir: dir, Disk: disk}, slog.New(slog.DiscardHandler))
			return m.files.loopback.Save(netip.MustParseAddrPort("[::1]:10251"))
		},
	}.Run(t)
}
