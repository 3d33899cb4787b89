// Package oracle compares podstead's API defaulting and validation of a Pod
// with Kubernetes' own, which the product never imports.
//
// It owns a corpus of pods (testdata), seeded random pods, and the lists of
// intended differences, each with its reason. A difference that is not listed
// fails, and so does a listed one that no longer occurs. It also decodes and
// validates the manifests of manifest/testdata/corpus, which are typical of what
// users write, with both. It is a separate module so that the product does not
// depend on k8s.io/kubernetes.
package oracle
