// Package archive reads archives of container images, in docker's format or as an
// OCI layout, and serves their images: from a registry on loopback that any
// runtime can pull from, or as an OCI layout that containerd's ctr imports.
//
// It owns the rules by which an archive is read and checked: names, platforms,
// digests. It reads its stream once, into an unnamed temporary file, and serves
// from there. It knows no runtime, and never contacts a registry.
package archive
