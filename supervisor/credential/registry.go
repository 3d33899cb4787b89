package credential

import (
	"context"

	"github.com/podstead/podstead/internal/registry"
)

// Credentials returns those for a repository from which podstead itself reads, in the order in which they are
// tried: those with which images are pulled. With an
// error about a file or plugin, it also returns what it found elsewhere.
func (n Node) Credentials(ctx context.Context, r registry.Reference) ([]registry.Credential, error) {
	image, err := ParseImage(r.String())
	if err != nil {
		return nil, err
	}
	found, err := n.Lookup(ctx, image)
	all := make([]registry.Credential, len(found))
	for i, c := range found {
		all[i] = registry.Credential{Username: c.Username, Password: c.Password, IdentityToken: c.IdentityToken,
			RegistryToken: c.RegistryToken}
	}
	return all, err
}
