// Package credential finds what to log in to image registries with.
//
// It owns the rules by which a credential belongs to an image, the files and
// Secrets in docker's format, and the kubelet's credential provider plugins
// with the cache of their answers. It reads docker's config files anew for
// each pull, the plugins' config once, and runs the plugins.
//
// It never pulls, never writes a file, and never puts a credential into an
// error or a log: an origin names where one is from.
package credential
