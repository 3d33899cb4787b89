// Package archive reads archives of container images, in docker's form or as an
// OCI layout, and gives their images out: as a registry on loopback that any
// runtime can pull from, or as an OCI layout that containerd's ctr imports.
//
// It owns the rules by which an archive is read and judged: names, platforms,
// digests. It reads the stream it is given once, into a file of its own that has
// no name, and serves from there. It knows no runtime, and never asks a registry.
package archive
