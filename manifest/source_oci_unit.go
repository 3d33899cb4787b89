package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// readArtifact returns the unit of an artifact with these files, which is accepted or
// rejected as a whole. revision is the artifact's digest. Files that are in effect already
// are not validated again, as in read.
func (r *unitReader) readArtifact(name, revision string, files []artifactFile) Unit {
	digest := filesDigest(files)
	accepted, ok := r.checkpoint.accepted(r.source, name)
	if ok && accepted.Digest == digest && r.isOfNode(accepted) {
		r.hadGood[name] = true
		accepted.Revision = revision
		return accepted
	}
	unit := Unit{Name: name, Digest: digest, Revision: revision}
	declared := map[string]string{}
	for _, file := range files {
		content, faults := r.loader.Load(LoadRequest{
			Source: r.source,
			Unit:   fileOfArtifact(name, file.name),
			Data:   file.data,
			Known:  r.checkpoint.known(r.source, r.node),
		})
		unit.Faults = append(append(unit.Faults, faults...),
			duplicates(declared, fileOfArtifact(name, file.name), &content)...)
		unit.Documents = append(unit.Documents, content.Documents...)
		unit.Objects = append(unit.Objects, content.Objects...)
	}
	if len(unit.Documents)+len(unit.Objects) > maxObjects {
		unit.Faults = append(unit.Faults,
			Fault{Unit: name, Problem: fmt.Sprintf("contains more than %d objects", maxObjects),
				Remedy: "split it into several artifacts"})
	}
	if fault := checkRevision(name, &accepted.Content, &unit.Content); fault != nil {
		unit.Faults = append(unit.Faults, *fault)
	}
	unit.Faults = firstFaults(name, unit.Faults)
	if unit.Faults.Fatal() {
		return r.lastGood(name, unit.Faults)
	}
	r.hadGood[name] = true
	return unit
}

// fileOfArtifact names a file of an artifact in faults.
func fileOfArtifact(artifact, file string) string { return artifact + "#" + file }

// filesDigest covers the names and the contents of the files, and not when or by whom
// they were pushed.
func filesDigest(files []artifactFile) string {
	sum := sha256.New()
	for _, file := range files {
		fmt.Fprintf(sum, "%d %d %s", len(file.name), len(file.data), file.name)
		sum.Write(file.data)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// duplicates returns the faults of what a file declares and another file of the artifact
// does as well. declared has the file of each pod and object.
func duplicates(declared map[string]string, file string, content *Content) (faults Faults) {
	claim := func(what, path, noun string) {
		if other, ok := declared[what]; ok && other != file {
			_, name, _ := strings.Cut(other, "#")
			faults = append(faults, Fault{Unit: file, Object: what, Path: path, Problem: noun + " is also declared in " + name,
				Remedy: "remove one of them"})
			return
		}
		declared[what] = file
	}
	for _, document := range content.Documents {
		claim("Pod "+document.Pod.Namespace+"/"+BaseName(document.Pod), "metadata.name", "the pod")
	}
	for i := range content.Objects {
		claim(content.Objects[i].Ref().String(), "metadata.name", "the object")
	}
	return faults
}

// firstFaults bounds the faults of an artifact with many files: errors come before
// warnings.
func firstFaults(name string, faults Faults) Faults {
	more := len(faults) - maxFaults
	if more <= 0 {
		return faults
	}
	slices.SortStableFunc(faults, func(a, b Fault) int {
		switch {
		case a.Warning == b.Warning:
			return 0
		case b.Warning:
			return -1
		}
		return 1
	})
	rest := faults[maxFaults:]
	return append(faults[:maxFaults:maxFaults],
		Fault{Unit: name, Problem: fmt.Sprintf("has %d more errors or warnings", more), Warning: !rest.Fatal()})
}
