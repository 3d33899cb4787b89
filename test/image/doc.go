// Package image creates container images in memory, writes them as archives and serves them to
// runtimes as a registry. It uses only the standard library, so that no library of images is a
// requirement of the product's module.
package image
