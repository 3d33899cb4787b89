// Package registry reads from OCI registries: the digest of a tag, manifests and blobs.
//
// It owns references, the bounds of what is read, the verification of digests and the
// classes of errors. It wraps oras-go, which owns the protocol and its authentication:
// oras-go adds 150 kB to the program and one small module, go-containerregistry adds
// 740 kB and docker's command line as a module.
//
// It never writes to a registry or to the disk, looks up no credential, retries
// nothing, and never puts a credential or the query of a URL into an error.
package registry
