package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/podstead/podstead/internal/boundedfile"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/signature"
)

// SignatureSuffix is appended to the name of a file, and to the path of a URL, for its
// detached signature.
const SignatureSuffix = ".sig"

// Verifier verifies signatures. signature.Keys implements it.
type Verifier interface {
	VerifyBlob(data, signature []byte) error
	VerifyPayload(digest string, payload []byte, signature string) error
	VerifyStatement(digest string, bundle []byte) error
}

// detached is a detached signature that was read.
type detached struct {
	// name is what is said about where it is.
	name string
	data []byte
	// err is why there is none; one that matches fs.ErrNotExist reports that there is none.
	err error
}

// isSignatureFile reports whether a name is that of the signature of a manifest.
func isSignatureFile(name string) bool {
	manifest, ok := strings.CutSuffix(name, SignatureSuffix)
	return ok && IsManifestFile(manifest)
}

// readSignature reads the signature of the manifest at path.
func readSignature(path string) detached {
	sig := detached{name: path + SignatureSuffix}
	sig.data, sig.err = readSmallFile(sig.name)
	return sig
}

func readSmallFile(path string) ([]byte, error) {
	content, err := readManifest(path)
	if err == nil && len(content.data) > signature.MaxSize {
		err = boundedfile.ErrTooLarge
	}
	return content.data, err
}

// readSigned is read for bytes that must be signed if there is a Verifier. It reports whether
// the signature is not valid: then the last good revision stays in effect.
func (r *unitReader) readSigned(name string, data []byte, sig detached) (unit Unit, unsigned bool) {
	if fault := r.verify(name, data, sig); fault != nil {
		return r.lastGood(name, Faults{*fault}), true
	}
	return r.read(name, data), false
}

// verify returns the fault of a signature, nil if it is valid or if none is needed.
func (r *unitReader) verify(name string, data []byte, sig detached) *Fault {
	if r.keys == nil {
		return nil
	}
	fault := &Fault{Unit: name}
	switch {
	case errors.Is(sig.err, fs.ErrNotExist):
		fault.Problem = "is not signed: there is no " + sig.name
		fault.Remedy = "sign it with cosign sign-blob and --manifest-verify-key's private key; what was accepted before " +
			"stays in effect"
	case sig.err != nil:
		fault.Problem = "its signature " + sig.name + " cannot be read: " + reason(sig.err)
		fault.Remedy = "correct it; what was accepted before stays in effect"
	default:
		err := r.keys.VerifyBlob(data, sig.data)
		if err == nil {
			return nil
		}
		fault.Problem = "its signature " + sig.name + " " + err.Error()
		fault.Remedy = "sign it again; what was accepted before stays in effect"
	}
	return fault
}

// revisionOf returns the highest number that the pods and objects of a unit have in
// AnnotationManifestRevision, 0 if there is none.
func revisionOf(content *Content) (highest uint64) {
	consider := func(annotations map[string]string) {
		if n, err := strconv.ParseUint(annotations[podinfo.AnnotationManifestRevision], 10, 64); err == nil {
			highest = max(highest, n)
		}
	}
	for i := range content.Documents {
		consider(content.Documents[i].Pod.Annotations)
	}
	for i := range content.Objects {
		if _, object := content.Objects[i].content(); object != nil {
			consider(object.GetAnnotations())
		}
	}
	return highest
}

// checkRevision returns a fault if the number of new content is lower than that of the
// accepted revision, or invalid: it is an older revision then, whose signature is valid as well.
func checkRevision(name string, accepted, content *Content) *Fault {
	before, now := revisionOf(accepted), revisionOf(content)
	if now >= before {
		return nil
	}
	is := fmt.Sprintf("has the revision %d", now)
	if now == 0 {
		is = "has no revision"
	}
	return &Fault{
		Unit: name, Problem: fmt.Sprintf("%s (annotation %s), and %d is in effect: it is older", is,
			podinfo.AnnotationManifestRevision, before),
		Remedy: fmt.Sprintf("to use it, give it a revision of %d or more", before),
	}
}
