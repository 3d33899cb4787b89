// Package manifestview shows the sources of manifests and the objects that they declare, as podstead's API lists them.
//
// It owns nothing but this form. It reads what the daemon has read of the manifests, and never a manifest itself.
package manifestview
