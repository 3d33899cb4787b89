package daemon

import (
	"context"

	"github.com/podstead/podstead/internal/buildinfo"
	"github.com/podstead/podstead/internal/registry"
	"github.com/podstead/podstead/supervisor/credential"
)

// openRegistries creates the client for what podstead itself reads from registries.
func (d *daemon) openRegistries(context.Context) (err error) {
	o := &d.opts.Registries
	d.registries, err = registry.New(registry.Options{CAFile: o.CAFile, PlainHTTP: o.PlainHTTP, UserAgent: "podstead/" + buildinfo.Version()})
	return err
}

// registryLogins are the node's credentials, with which images are pulled, for what
// podstead itself reads from registries.
type registryLogins struct{ node credential.Node }

// Credentials returns those for a repository, in the order in which they are tried. With an
// error about a file or plugin, it also returns what it found elsewhere.
func (l registryLogins) Credentials(ctx context.Context, r registry.Reference) ([]registry.Credential, error) {
	image, err := credential.ParseImage(r.String())
	if err != nil {
		return nil, err
	}
	found, err := l.node.Lookup(ctx, image)
	all := make([]registry.Credential, len(found))
	for i, c := range found {
		all[i] = registry.Credential{Username: c.Username, Password: c.Password, IdentityToken: c.IdentityToken, RegistryToken: c.RegistryToken}
	}
	return all, err
}
