// Package kubeversion names the Kubernetes release that podstead follows.
//
// It owns the release and the form of the versions that Kubernetes expects of a component. It
// reads podstead's own version from its caller. It never compares versions.
package kubeversion
