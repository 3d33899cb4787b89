// Package imagepolicy decides for which images, of those that are present, a pod must have
// credentials of its own: the values of imagePullCredentialsVerificationPolicy in the
// KubeletConfiguration.
//
// It owns the names of the policies and the patterns of their allowlist. It is pure: it
// reads no file, and never asks a runtime.
package imagepolicy
