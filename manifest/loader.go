package manifest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Mode reports how to treat an unknown field, a duplicate key, or an empty list
// item. It is the value of --manifest-validation.
type Mode string

// The modes. A value of the wrong type is rejected in all of them.
const (
	// ModeStrict rejects such fields.
	ModeStrict Mode = "strict"
	// ModeWarn drops unknown fields, uses the last of two values, and adds a
	// warning.
	ModeWarn Mode = "warn"
	// ModeIgnore does the same without a warning.
	ModeIgnore Mode = "ignore"
)

// ParseMode parses the name of a mode. The empty name is ModeStrict.
func ParseMode(name string) (Mode, error) {
	switch mode := Mode(name); mode {
	case "":
		return ModeStrict, nil
	case ModeStrict, ModeWarn, ModeIgnore:
		return mode, nil
	}
	return "", fmt.Errorf("unknown manifest validation %q; must be strict, warn or ignore", name)
}

// Loader turns the bytes of a unit into static pods and the objects next to
// them. It has no state between two calls and is safe for concurrent use.
type Loader struct {
	node string
	mode Mode
}

// NewLoader creates a Loader for the node of that name.
func NewLoader(node string, mode Mode) *Loader {
	return &Loader{node: node, mode: mode}
}

// LoadRequest is one unit to load.
type LoadRequest struct {
	Source Source
	// Unit is the file path or URL, which the faults name.
	Unit string
	Data []byte
	// Known looks up the pod that was made from the document with that digest.
	// If it was made for this node, it is used as it is, and the document is
	// not validated again. It may be nil.
	Known func(docDigest string) (*v1.Pod, bool)
}

// Digest returns the sha256 of data in hex.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Load decodes, defaults and validates the documents of a unit and gives each
// pod its identity. The faults are in the order of the unit. If one of them is
// fatal there is no content; an empty list of pods has neither.
//
// The same request always has the same result. The time and memory that it
// takes are bounded by the size of Data, which is bounded as well.
func (l *Loader) Load(req LoadRequest) (Content, Faults) {
	u := &unitLoad{loader: l, req: req, names: map[string]int{}, uids: map[string]int{}}
	u.load()
	faults := u.sortedFaults()
	if faults.Fatal() {
		return Content{}, faults
	}
	return Content{Documents: u.documents, Objects: u.objects}, faults
}

const (
	// maxFaults bounds how many faults of a unit are reported.
	maxFaults = 200
	// maxFatalFaults is how many fatal faults end the check of a unit at the
	// next object.
	maxFatalFaults = 1000
)

// unitLoad is the state of one call of Load.
type unitLoad struct {
	loader    *Loader
	req       LoadRequest
	documents []Document
	objects   []Object
	faults    Faults
	// names are the lines of the pods so far by namespace/name, and of the
	// objects by "Kind namespace/name"; uids are those of the pods by UID.
	names, uids map[string]int
	// count is the number of documents and list items, fatal that of fatal
	// faults.
	count, fatal int
}

func (u *unitLoad) load() {
	text, fault := decodeText(u.req.Data)
	if fault != nil {
		u.fault(*fault)
		return
	}
	found := false
	for _, c := range splitChunks(text) {
		if u.count > maxObjects || u.fatal > maxFatalFaults {
			break
		}
		raws, fault := decodeChunk(c)
		if fault != nil {
			if mayBeSecret(c) {
				fault.Problem = redactQuoted(fault.Problem)
			}
			u.fault(*fault)
			found = true
			u.countObject()
			continue
		}
		for _, raw := range raws {
			found = true
			for _, warning := range raw.warnings {
				warning.Line += raw.lineOffset
				u.fault(warning)
			}
			u.loadDocument(raw)
		}
	}
	if !found {
		u.fault(Fault{
			Problem: "contains no manifest",
			Remedy:  "must contain a Pod or an object that pods refer to; to declare no pods, write a PodList with items: []",
		})
	}
}

// decodeChunk decodes the documents of a chunk. Text that begins with a brace
// is JSON or, failing that, YAML in flow style.
func decodeChunk(c chunk) ([]rawDocument, *Fault) {
	var jsonFault *Fault
	// JSON may follow a document marker, but has none itself.
	bare := chunk{text: bytes.TrimPrefix(c.text, []byte("---")), lineOffset: c.lineOffset}
	if looksLikeJSON(bare.text) {
		var raws []rawDocument
		if raws, jsonFault = decodeJSON(bare); jsonFault == nil {
			return raws, nil
		}
	}
	raw, fault := decodeYAML(c)
	if fault != nil {
		if foreign := foreignFault(c); foreign != nil {
			return nil, foreign
		}
	}
	switch {
	case fault != nil && jsonFault != nil && beginsAsJSON(bare.text):
		return nil, jsonFault
	case fault != nil || raw == nil:
		return nil, fault
	}
	return []rawDocument{*raw}, nil
}

// countObject reports whether to check one more object of the unit.
func (u *unitLoad) countObject() bool {
	if u.fatal > maxFatalFaults {
		return false
	}
	u.count++
	if u.count == maxObjects+1 {
		u.fault(Fault{
			Problem: fmt.Sprintf("contains more than %d objects", maxObjects),
			Remedy:  "split it into several files",
		})
	}
	return u.count <= maxObjects
}

func (u *unitLoad) fault(fault Fault) {
	fault.Unit = u.req.Unit
	if !fault.Warning {
		u.fatal++
	}
	u.faults = append(u.faults, fault)
}

// sortedFaults returns the faults sorted by line.
func (u *unitLoad) sortedFaults() Faults {
	faults := u.faults
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Problem, b.Problem))
	})
	faults = slices.Compact(faults)
	if more := len(faults) - maxFaults; more > 0 {
		rest := Faults(faults[maxFaults:])
		problem := fmt.Sprintf("has %d more errors", more)
		if u.fatal > maxFatalFaults {
			problem = fmt.Sprintf("has at least %d more errors", more)
		}
		faults = append(faults[:maxFaults:maxFaults], Fault{
			Unit:    u.req.Unit,
			Problem: problem,
			Warning: !rest.Fatal(),
		})
	}
	return faults
}
