package daemon

import (
	"context"

	"github.com/podstead/podstead/internal/buildinfo"
	"github.com/podstead/podstead/internal/registry"
)

// openRegistries creates the client for what podstead itself reads from registries.
func (d *daemon) openRegistries(context.Context) (err error) {
	o := &d.opts.Registries
	d.registries, err = registry.New(
		registry.Options{CAFile: o.CAFile, PlainHTTP: o.PlainHTTP, UserAgent: "podstead/" + buildinfo.Version()})
	return err
}
