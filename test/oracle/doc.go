// Package oracle compares podstead's API defaulting and validation of a Pod
// with Kubernetes' own, which the product never imports.
//
// It owns a corpus of pods (testdata) and seeded random pods, and the lists of
// differences that are meant, each with its reason: one that is not listed
// fails, and so does one that is listed and no longer occurs. It also runs the
// manifests of manifest/testdata/corpus, which are like those that people
// bring, through both, from their bytes on. It is a module of its own so that
// nothing of k8s.io/kubernetes reaches the product's.
package oracle
