package keeper

import (
	"encoding/json"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
	"github.com/podstead/podstead/node/nameserver"
	"github.com/podstead/podstead/node/nameserver/zone"
)

func TestSnapshotFile(t *testing.T) {
	keeper := func(dir string, disk statefile.Disk) *Keeper {
		return New(Config{
			Dir: nameserver.Directory(dir), Disk: disk, Log: slog.New(slog.DiscardHandler),
			Settings: nameserver.Snapshot{
				Domain: "cluster.local", Listen: []netip.Addr{netip.MustParseAddr("10.88.0.1")}, Port: 10053,
				Clients: []netip.Prefix{netip.MustParsePrefix("10.88.0.0/16")}, ResolvConf: "/etc/resolv.conf",
			},
		})
	}
	db := netip.MustParseAddr("10.88.0.3")
	statefiletest.Store{
		Files: []string{"snapshot.json"}, Before: "snapshot.json", After: "snapshot-after.json",
		Old:   `{"names":{"db.shop.svc.cluster.local":{"addresses":["10.88.0.2"]}},"namespaces":{"10.88.0.2":"shop"}}`,
		New:   `{"names":{"db.shop.svc.cluster.local":{"addresses":["10.88.0.3"]}},"namespaces":{"10.88.0.3":"shop"}}`,
		None:  `{}`,
		Rules: statefiletest.RulesOf(&nameserver.SnapshotFormat),
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			text, err := json.Marshal(keeper(dir, disk).Zone())
			return string(text), err
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			k := keeper(dir, disk)
			k.Zone()
			return k.Publish(zone.Zone{
				Names:      map[string]zone.Records{"db.shop.svc.cluster.local": {Addresses: []netip.Addr{db}}},
				Namespaces: map[netip.Addr]string{db: "shop"},
			})
		},
	}.Run(t)
}
