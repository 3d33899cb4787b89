package manifest

import (
	"crypto/sha256"
	"encoding/hex"

	v1 "k8s.io/api/core/v1"
)

// Mode says what becomes of a field that is unknown or there twice. It is the
// value of --manifest-validation.
type Mode string

// The modes. A value of the wrong type is refused in all of them.
const (
	// ModeStrict refuses such fields.
	ModeStrict Mode = "strict"
	// ModeWarn leaves unknown fields out, takes the last of two, and says so.
	ModeWarn Mode = "warn"
	// ModeIgnore does the same and says nothing.
	ModeIgnore Mode = "ignore"
)

// Loader turns the bytes of a unit into static pods. It keeps nothing between
// two calls and may be used by several goroutines.
type Loader struct {
	node string
	mode Mode
}

// NewLoader makes a Loader for the node of that name.
func NewLoader(node string, mode Mode) *Loader {
	return &Loader{node: node, mode: mode}
}

// LoadRequest is one unit to load.
type LoadRequest struct {
	Source Source
	// Unit is the file path or URL, which the faults name.
	Unit string
	Data []byte
	// Known looks up the pod that was made of a document with that digest; it
	// is used as it is, and the document is not judged again. May be nil.
	Known func(docDigest string) (*v1.Pod, bool)
}

// Digest is the sha256 of data in hex.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Load decodes, defaults and judges the documents of a unit and gives each its
// identity. One fault that is not a warning, and there are no documents.
func (l *Loader) Load(req LoadRequest) ([]Document, Faults) {
	return nil, Faults{{Unit: req.Unit, Problem: "holds no manifest"}}
}
