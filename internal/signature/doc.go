// Package signature verifies the key-based signatures that cosign makes: of files, and of
// artifacts in registries.
//
// It owns the formats: detached signatures, Sigstore bundles and simple signing. It reads the
// files of public keys. It never asks a transparency log, a time-stamping or a certificate
// authority: a signature is valid if it was made with one of the keys.
package signature
