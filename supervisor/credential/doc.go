// Package credential finds the credentials for pulling from image registries.
//
// It owns the rules by which a credential matches an image, the files and Secrets in
// docker's format, and the kubelet's credential provider plugins with the cache of
// their responses. It reads docker's config files for each pull and the plugins'
// configuration once, and it runs the plugins.
//
// It never pulls, never writes a file, and never puts a credential into an error or a
// log: an origin reports where a credential is from.
package credential
