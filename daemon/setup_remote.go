package daemon

import (
	"net/netip"
	"os"
	"path/filepath"

	"github.com/podstead/podstead/cluster"
	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/node/addresses"
)

// remoteConfig configures the TLS listener, for clients of other machines and for
// those that cannot connect to a unix socket. member is nil without a cluster.
func remoteConfig(o *config.Options, node string, addresses *addresses.Source, member *cluster.Adapter,
	disk statefile.Disk) httpapi.Remote {
	r := &o.Remote
	remote := httpapi.Remote{
		Address: r.Address, Dir: filepath.Join(o.Paths.Root, "pki"), Node: node,
		CertFile: r.CertFile, KeyFile: r.KeyFile, ClientCAFile: r.ClientCAFile, TokenFile: r.TokenFile,
		MinVersion: r.MinVersion, CipherSuites: r.CipherSuites, DisableDebugging: !r.Debugging, Disk: disk,
		Names: func() []string {
			names := []string{node}
			if host, err := os.Hostname(); err == nil {
				names = append(names, host)
			}
			return names
		},
		Addresses: func() (all []netip.Addr) {
			for _, text := range addresses.Addresses() {
				if a, err := netip.ParseAddr(text); err == nil {
					all = append(all, a)
				}
			}
			return all
		},
	}
	if member != nil {
		remote.Signed = member.ServingCertificate
		remote.Reviews = access.ReviewConfig{
			Reviewer: member, Node: node, Authentication: r.Reviews.Tokens, Authorization: r.Reviews.Rights,
			TokenTTL: r.Reviews.TokenTTL, AllowedTTL: r.Reviews.AllowedTTL, DeniedTTL: r.Reviews.DeniedTTL,
		}
	}
	return remote
}
