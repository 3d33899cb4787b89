package signature

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func newKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func public(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func sign(t *testing.T, key *ecdsa.PrivateKey, data []byte) string {
	t.Helper()
	sum := sha256.Sum256(data)
	sig, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(sig)
}

func TestReadKeys(t *testing.T) {
	a, b := newKey(t, elliptic.P256()), newKey(t, elliptic.P256())
	wrong, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	keys, err := ReadKeys([]string{write("a.pub", public(t, &a.PublicKey)),
		write("both.pub", "our keys\n"+public(t, &a.PublicKey)+"\n"+public(t, &b.PublicKey))})
	if err != nil || len(keys) != 3 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	open := write("open.pub", public(t, &a.PublicKey))
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir + "/absent.pub": "absent.pub: cannot be read: no such file or directory; create it with cosign " +
			"generate-key-pair",
		dir:                    "is not a regular file",
		write("empty.pub", ""): "contains no PEM public key; use the cosign.pub",
		write("rsa.pub",
			public(t, &wrong.PublicKey)): "not an ECDSA P-256 key",
		write("p384.pub",
			public(t, &newKey(t, elliptic.P384()).PublicKey)): "not an ECDSA P-256 key",
		write("private.key", "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED SIGSTORE PRIVATE "+
			"KEY-----"): "must contain PUBLIC KEYs only, as cosign.pub does",
		write("broken.pub", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"): "contains no valid public key",
		open: "users other than root may replace it: it has mode 0666; run chown",
	} {
		if keys, err := ReadKeys([]string{path}); err == nil || keys != nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestVerifyBlob(t *testing.T) {
	key, other := newKey(t, elliptic.P256()), newKey(t, elliptic.P256())
	keys := Keys{&newKey(t, elliptic.P256()).PublicKey, &key.PublicKey}
	data := []byte("kind: Pod\n")
	good := sign(t, key, data)
	bundle := func(sig string) string {
		return `{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{"hint":"x"}},"messageSignature":{"messageDigest":{"algorithm":"SHA2_256","digest":"AAAA"},"signature":"` + sig + `"}}`
	}
	for name, tc := range map[string]struct{ sig, want string }{
		"base64":                {good, ""},
		"with a line end":       {good + "\n", ""},
		"bundle":                {bundle(good), ""},
		"of another key":        {sign(t, other, data), "fits none of the keys"},
		"of other bytes":        {sign(t, key, append(data, '#')), "fits none of the keys"},
		"bundle, another key":   {bundle(sign(t, other, data)), "fits none of the keys"},
		"bundle without":        {`{"dsseEnvelope":{}}`, "is neither"},
		"truncated bundle":      {bundle(good)[:90], "is neither"},
		"empty":                 {"", "is neither"},
		"not base64":            {"kind: Pod", "is neither"},
		"base64 of what is not": {base64.StdEncoding.EncodeToString(data), "fits none of the keys"},
	} {
		if err := keys.VerifyBlob(data, []byte(tc.sig)); tc.want == "" != (err == nil) || err != nil &&
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if err := (Keys{}).VerifyBlob(data, []byte(good)); err == nil {
		t.Error("no key accepts a signature")
	}
}

func TestVerifyArtifactSignatures(t *testing.T) {
	key, other := newKey(t, elliptic.P256()), newKey(t, elliptic.P256())
	keys := Keys{&key.PublicKey}
	hex := strings.Repeat("ab", 32)
	digest := "sha256:" + hex
	payload := func(digest string) []byte {
		return []byte(`{"critical":{"identity":{"docker-reference":"r.test/fleet"},"image":{"docker-manifest-digest":"` +
			digest + `"},"type":"cosign container image signature"},"optional":null}`)
	}
	check := func(name string, err error, want string) {
		t.Helper()
		if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	check("simple signing", keys.VerifyPayload(digest, payload(digest), sign(t, key, payload(digest))), "")
	check("another key", keys.VerifyPayload(digest, payload(digest), sign(t, other, payload(digest))), "fits none")
	check("another artifact", keys.VerifyPayload(digest, payload("sha256:00"), sign(t, key, payload("sha256:00"))),
		"another artifact, sha256:00")
	text := []byte(`{"critical":{"image":{"docker-manifest-digest":"` + digest + `"}}}`)
	check("another type", keys.VerifyPayload(digest, text, sign(t, key, text)), "of the type")
	check("no JSON", keys.VerifyPayload(digest, []byte("x"), sign(t, key, []byte("x"))), "not JSON")
	check("no digest", keys.VerifyPayload("", payload(""), sign(t, key, payload(""))), "another artifact")

	statement := func(predicate, hex string) string {
		return `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"` + hex +
			`"}}],"predicateType":"` + predicate + `","predicate":{}}`
	}
	bundle := func(key *ecdsa.PrivateKey, kind, payload string) []byte {
		pae := fmt.Sprintf("DSSEv1 %d %s %d %s", len(kind), kind, len(payload), payload)
		return fmt.Appendf(nil,
			`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","dsseEnvelope":{"payload":%q,"payloadType":%q,"signatures":[{"sig":%q}]}}`,
			base64.StdEncoding.EncodeToString([]byte(payload)), kind, sign(t, key, []byte(pae)))
	}
	good := statement(predicateSign, hex)
	check("statement", keys.VerifyStatement(digest, bundle(key, payloadInToto, good)), "")
	check("statement, another key", keys.VerifyStatement(digest, bundle(other, payloadInToto, good)), "fits none")
	check("statement, another artifact",
		keys.VerifyStatement(digest, bundle(key, payloadInToto, statement(predicateSign, "00"))),
		"another artifact, sha256:00")
	check("statement of a scan", keys.VerifyStatement(digest,
		bundle(key, payloadInToto, statement("https://cosign.sigstore.dev/attestation/vuln/v1", hex))),
		"not that it was signed")
	check("another payload type", keys.VerifyStatement(digest, bundle(key, "text/plain", good)), "no in-toto statement")
	check("no envelope", keys.VerifyStatement(digest, []byte(`{"messageSignature":{"signature":"AA=="}}`)), "is neither")
	check("no JSON", keys.VerifyStatement(digest, []byte("x")), "is neither")
}
