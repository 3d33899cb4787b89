// Package oracle compares podstead's API defaulting and validation of a Pod
// with Kubernetes' own, which the product never imports.
//
// It owns a corpus of manifests (testdata) and seeded random pods, and the
// list of differences that are meant, each with its reason: one that is not
// listed fails, and so does one that is listed and no longer occurs. It is a
// module of its own so that nothing of k8s.io/kubernetes reaches the product's.
package oracle
