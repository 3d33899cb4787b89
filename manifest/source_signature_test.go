package manifest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/internal/registry"
	"github.com/podstead/podstead/internal/signature"
)

// signer signs as cosign does.
type signer struct{ key *ecdsa.PrivateKey }

func newSigner(t *testing.T) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{key}
}

func (s signer) keys() signature.Keys { return signature.Keys{&s.key.PublicKey} }

func (s signer) sign(text string) string {
	sum := sha256.Sum256([]byte(text))
	raw, err := ecdsa.SignASN1(rand.Reader, s.key, sum[:])
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// A file takes effect with a valid signature only, in whatever order the two arrive; what is
// in effect stays.
func TestFileSourceVerifiesSignatures(t *testing.T) {
	b := newFileHarness(t)
	good, other := newSigner(t), newSigner(t)
	b.keys = good.keys()
	b.write("a.yaml.sig", good.sign("a 1"))
	b.write("a.yaml", "a 1")
	b.write("unsigned.yaml", "u 1")
	b.start()
	b.sink.awaitPods("a=1")
	b.sink.awaitFault("unsigned.yaml: is not signed: there is no " + b.path("unsigned.yaml.sig") +
		"; sign it with cosign sign-blob")
	b.write("unsigned.yaml.sig", good.sign("u 1"))
	b.sink.awaitPods("a=1", "u=1")

	// The file first, then its signature.
	b.write("a.yaml", "a 2")
	b.sink.awaitFault("fits none of the keys")
	b.write("a.yaml.sig", good.sign("a 2"))
	if set := b.sink.awaitPods("a=2", "u=1"); setFaults(set) != "" {
		t.Errorf("faults remain: %s", setFaults(set))
	}
	// The signature first.
	b.write("a.yaml.sig", good.sign("a 3"))
	b.sink.awaitFault("fits none of the keys")
	b.write("a.yaml", "a 3")
	if set := b.sink.awaitPods("a=3", "u=1"); setFaults(set) != "" {
		t.Errorf("faults remain: %s", setFaults(set))
	}
	// Another key, a byte more, no signature, rubbish.
	b.write("a.yaml.sig", other.sign("a 3"))
	b.sink.awaitFault("fits none of the keys")
	b.write("a.yaml.sig", good.sign("a 3"))
	b.sink.await("no fault", func(set Set) bool { return setFaults(set) == "" })
	b.write("a.yaml", "a 4 ")
	b.write("a.yaml.sig", good.sign("a 4"))
	b.sink.awaitFault("fits none of the keys")
	b.must(os.Remove(b.path("a.yaml.sig")))
	b.sink.awaitFault("is not signed")
	b.write("a.yaml.sig", "not yet!")
	b.sink.awaitFault("is neither a signature in base64 nor a Sigstore bundle")
	b.must(os.Remove(b.path("a.yaml.sig")))
	b.must(os.Mkdir(b.path("a.yaml.sig"), 0o700))
	b.sink.awaitFault("cannot be read")
	if got := strings.Join(b.sink.model.running(), " "); got != "a=3 u=1" {
		t.Errorf("running: %s", got)
	}
	if lines := b.lines.with("Ignoring"); len(lines) > 0 {
		t.Errorf("signatures are reported as ignored files: %s", lines)
	}
}

// What is signed is the content: those who can write to the directory can rename it, remove it, and go back to an
// older revision under a new name. SECURITY.md and docs/manifests.md say so.
func TestSignaturesBindNoName(t *testing.T) {
	b := newFileHarness(t)
	signer := newSigner(t)
	b.keys = signer.keys()
	write := func(name, text string) {
		b.write(name+".sig", signer.sign(text))
		b.write(name, text)
	}
	write("a.yaml", "a 2")
	b.start()
	b.sink.awaitPods("a=2")
	write("other.yaml", "c 1")
	b.sink.awaitPods("a=2", "c=1")
	write("a.yaml", "b 1")
	b.sink.awaitPods("b=1", "c=1")
	b.must(os.Remove(b.path("a.yaml")))
	b.sink.awaitPods("c=1")
	write("again.yaml", "a 1")
	b.sink.awaitPods("a=1", "c=1")
}

// When verification is switched on, what was accepted before keeps running, with a fault, and
// also after a restart.
func TestVerificationIsSwitchedOn(t *testing.T) {
	b := newFileHarness(t)
	key := newSigner(t)
	b.write("a.yaml", "a 1")
	b.start()
	b.sink.awaitPods("a=1")
	b.keys = key.keys()
	for range 2 {
		b.start()
		b.sink.awaitPods("a=1")
		b.sink.awaitFault("is not signed")
	}
	b.write("a.yaml", "a 2")
	b.write("b.yaml", "b 1")
	b.sink.awaitFault("b.yaml: is not signed")
	if got := b.sink.model.running(); strings.Join(got, " ") != "a=1" {
		t.Errorf("running: %v", got)
	}
	b.write("a.yaml.sig", key.sign("a 2"))
	b.sink.awaitPods("a=2")
}

func TestSingleFileIsVerified(t *testing.T) {
	b := newFileHarness(t)
	key := newSigner(t)
	b.keys = key.keys()
	b.write("a.yaml", "a 1")
	b.directory = b.path("a.yaml")
	b.start()
	b.sink.awaitFault("is not signed")
	b.must(os.WriteFile(b.directory+".sig", []byte(key.sign("a 1")), 0o600))
	b.sink.awaitPods("a=1")
}

// The signature of a body is requested at its URL with .sig, with the same headers.
func TestURLSourceVerifiesSignatures(t *testing.T) {
	b := newURLHarness(t)
	key := newSigner(t)
	var mu sync.Mutex
	body, sig, status := "a 1", "", http.StatusOK
	set := func(newBody, newSig string, newStatus int) {
		mu.Lock()
		defer mu.Unlock()
		body, sig, status = newBody, newSig, newStatus
	}
	b.set(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		etag := `"` + body + `"`
		switch {
		case r.URL.Query().Get("token") != "secret" || r.Header.Get("X-Token") != "1":
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/pods.sig" && r.Header.Get("If-None-Match") != "":
			w.WriteHeader(http.StatusNotModified)
		case r.URL.Path == "/pods.sig" && status != http.StatusOK:
			w.WriteHeader(status)
		case r.URL.Path == "/pods.sig":
			fmt.Fprint(w, sig)
		case r.Header.Get("If-None-Match") == etag:
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("Etag", etag)
			fmt.Fprint(w, body)
		}
	})
	b.opts.URL += "?token=secret"
	b.opts.Header = http.Header{"X-Token": {"1"}}
	b.opts.Keys = key.keys()
	set("a 1", key.sign("a 1"), http.StatusOK)
	b.start()
	b.sink.awaitPods("a=1")
	set("a 2", "", http.StatusNotFound)
	if text := setFaults(b.sink.awaitFault("is not signed: there is no " + b.server.URL + "/pods.sig")); strings.Contains(
		text, "secret") {
		t.Errorf("the fault contains a secret: %s", text)
	}
	set("a 2", key.sign("a 1"), http.StatusOK)
	b.sink.awaitFault("fits none of the keys")
	set("a 2", "", http.StatusInternalServerError)
	b.sink.awaitFault("the signature was answered with status 500")
	set("a 2", strings.Repeat("A", signature.MaxSize+1), http.StatusOK)
	b.sink.awaitFault("file is too large")
	set("a 2", key.sign("a 2"), http.StatusOK)
	if set := b.sink.awaitPods("a=2"); setFaults(set) != "" {
		t.Errorf("faults remain: %s", setFaults(set))
	}
	b.wantLog("ADD http a=1", "REMOVE http a=1", "ADD http a=2")
}

// signedRegistry adds referrers to a memoryRegistry.
type signedRegistry struct {
	*memoryRegistry
	referrers map[string][]registry.Descriptor
}

func (m signedRegistry) Referrers(_ context.Context, r registry.Reference, _ int64,
	_ ...registry.Credential) ([]registry.Descriptor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.referrers[r.Digest], nil
}

// simpleSign adds a signature as cosign sign does with simple signing.
func (m signedRegistry) simpleSign(key signer, digest, about string) {
	payload := `{"critical":{"identity":{"docker-reference":""},"image":{"docker-manifest-digest":"` + about +
		`"},"type":"cosign container image signature"}}`
	m.pushLayers("registry.test/fleet/web:"+strings.Replace(digest, ":", "-", 1)+".sig", []registry.Descriptor{
		{MediaType: "application/vnd.dev.cosign.simplesigning.v1+json",
			Annotations: map[string]string{annotationSignature: key.sign(payload)}},
	}, [][]byte{[]byte(payload)})
}

// removeSignature removes the content of the signature of simpleSign.
func (m signedRegistry) removeSignature(digest string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	tag := m.tags["registry.test/fleet/web:"+strings.Replace(digest, ":", "-", 1)+".sig"]
	delete(m.blobs, m.manifests[tag].Layers[0].Digest)
}

// bundleSign adds a signature as cosign sign does with bundles.
func (m signedRegistry) bundleSign(key signer, digest string) {
	payload := `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"` +
		strings.TrimPrefix(digest, "sha256:") + `"}}],"predicateType":"https://sigstore.dev/cosign/sign/v1"}`
	const kind = "application/vnd.in-toto+json"
	sig := key.sign(fmt.Sprintf("DSSEv1 %d %s %d %s", len(kind), kind, len(payload), payload))
	bundle := fmt.Sprintf(`{"dsseEnvelope":{"payload":%q,"payloadType":%q,"signatures":[{"sig":%q}]}}`,
		base64.StdEncoding.EncodeToString([]byte(payload)), kind, sig)
	at := m.pushLayers("registry.test/fleet/web:bundle", []registry.Descriptor{{MediaType: typeBundle + ".v0.3+json"}},
		[][]byte{[]byte(bundle)})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.referrers[digest] = append(m.referrers[digest],
		registry.Descriptor{Digest: "sha256:absent", ArtifactType: "application/spdx+json"},
		registry.Descriptor{Digest: at, ArtifactType: typeBundle + ".v0.3+json"})
}

func TestOCISourceVerifiesSignatures(t *testing.T) {
	inOCIBubble(t, func(b *ociHarness) {
		good, other := newSigner(t), newSigner(t)
		signed := signedRegistry{b.registry, map[string][]registry.Descriptor{}}
		b.opts.Verify = VerifyArtifact(good.keys(), signed)
		first := b.registry.push(testArtifact, "a.yaml", "a 1")
		b.start()
		b.wantPods()
		b.wantFault("is not signed: there is no signature of registry.test/fleet/web:stable@" + first)
		signed.simpleSign(good, first, first)
		b.pass(defaultInterval)
		b.wantPods("a=1")
		b.wantFault("")
		second := b.registry.push(testArtifact, "a.yaml", "a 2")
		signed.simpleSign(good, second, first) // a signature of another artifact, moved here
		b.pass(defaultInterval)
		b.wantPods("a=1")
		b.wantFault("none of the 1 signatures of registry.test/fleet/web:stable@" + second +
			" is valid: the last one is that of another artifact")
		signed.simpleSign(other, second, second)
		b.pass(defaultInterval)
		b.wantFault("fits none of the keys")
		signed.bundleSign(other, second)
		b.pass(defaultInterval)
		b.wantFault("none of the 2 signatures")
		signed.bundleSign(good, second)
		b.pass(defaultInterval)
		b.wantPods("a=2")
		b.wantFault("")
		// A signature that cannot be read, such as one that was removed from the registry, keeps no
		// other one from being found.
		broken := b.registry.push(testArtifact, "a.yaml", "a broken")
		signed.simpleSign(good, broken, broken)
		signed.removeSignature(broken)
		signed.mu.Lock()
		signed.referrers[broken] = []registry.Descriptor{{Digest: "sha256:absent", ArtifactType: typeBundle + ".v0.3+json"}}
		signed.mu.Unlock()
		b.pass(defaultInterval)
		b.wantFault("none of the 2 signatures")
		signed.bundleSign(good, broken)
		b.pass(defaultInterval)
		b.wantPods("a=broken")
		b.wantFault("")
		// A registry that does not respond is no missing signature.
		third := b.registry.push(testArtifact, "a.yaml", "a 3")
		signed.simpleSign(good, third, third)
		b.opts.Verify = nil
		b.registry.setError("", fmt.Errorf("no route to host: %w", registry.ErrUnreachable))
		b.pass(2 * defaultInterval)
		b.wantFault("no route to host")
		b.registry.setError("", nil)
		b.pass(2 * maxRetry)
		b.wantPods("a=3")
	})
}

// A manifest whose number decreases is rejected, whichever key signed it.
func TestManifestRevisionMustNotDecrease(t *testing.T) {
	content := func(revisions ...string) *Content {
		c := &Content{Documents: []Document{{Pod: &v1.Pod{}}}}
		for i, r := range revisions {
			meta := metav1.ObjectMeta{Annotations: map[string]string{"podstead.io/manifest-revision": r}}
			if i == 0 {
				c.Documents = append(c.Documents, Document{Pod: &v1.Pod{ObjectMeta: meta}})
			} else {
				c.Objects = append(c.Objects, Object{ConfigMap: &v1.ConfigMap{ObjectMeta: meta}})
			}
		}
		return c
	}
	for _, tc := range []struct {
		before, now *Content
		want        string
	}{
		{content(), content(), ""},
		{content(), content("1"), ""},
		{&Content{}, content(), ""},
		{content("9"), content("9"), ""},
		{content("9"), content("10"), ""},
		{content("1", "42"), content("7", "42"), ""},
		{content("1", "42"), content("41"), "a.yaml: has the revision 41 (annotation podstead.io/manifest-revision), and " +
			"42 is in effect: it is older; to use it, give it a revision of 42 or more"},
		{content("42"), content(), "a.yaml: has no revision"},
		{content("42"), &Content{}, "a.yaml: has no revision"},
	} {
		fault := checkRevision("a.yaml", tc.before, tc.now)
		got := ""
		if fault != nil {
			got = fault.Error()
		}
		if tc.want == "" != (got == "") || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%d after %d: %q, want %q", revisionOf(tc.now), revisionOf(tc.before), got, tc.want)
		}
	}
}

// The number is compared with that of what is in effect, and a value that is no number is an
// error.
func TestFileSourceRefusesOlderRevision(t *testing.T) {
	b := newFileHarness(t)
	b.real = NewLoader("node", ModeStrict)
	manifest := func(revision, value string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fleet, annotations: {podstead.io/manifest-revision: \"" +
			revision + "\"}}\ndata: {value: " + value + "}\n"
	}
	b.write("a.yaml", manifest("7", "new"))
	b.start()
	inEffect := func() string {
		if c, ok := b.sink.config.Objects().ConfigMap("default", "fleet"); ok {
			return c.Data["value"]
		}
		return ""
	}
	b.sink.await("the object", func(Set) bool { return inEffect() == "new" })
	b.write("a.yaml", manifest("6", "old"))
	b.sink.awaitFault("has the revision 6")
	b.write("a.yaml", manifest("-8", "odd"))
	b.sink.awaitFault(`must be a number without a sign, such as "42"`)
	if got := inEffect(); got != "new" {
		t.Errorf("in effect: %q", got)
	}
	b.write("a.yaml", manifest("8", "newer"))
	b.sink.await("the newer one", func(Set) bool { return inEffect() == "newer" })
}
